// The LLVM bitcode of the kernels in this folder, as the build has compiled it.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace tapeout::codegen {

/// Of AttentionGradient.cpp: attention_{query_gradient,key_gradients}{,_sums}_{bf16,f16}.
llvm::StringRef attentionGradientCode();
/// Of GeluProduct.cpp: {gelu_product_{tanh,erf},scaled_product}_by_{feature,inner}_{bf16,f16}.
llvm::StringRef geluProductCode();

} // namespace tapeout::codegen
