#include "codegen/cuda/device/DeviceCode.h"

// TAPEOUT_ATTENTION_GRADIENT_CODE: the path of the bitcode, set by the build.
asm(".section .rodata\n"
    ".balign 16\n"
    "tapeout_attention_gradient_code:\n"
    ".incbin \"" TAPEOUT_ATTENTION_GRADIENT_CODE "\"\n"
    "tapeout_attention_gradient_code_end:\n"
    ".byte 0\n"
    ".text\n");

extern "C" {
extern const char tapeout_attention_gradient_code[], tapeout_attention_gradient_code_end[];
}

namespace tapeout::codegen {

llvm::StringRef attentionGradientCode() {
  return {tapeout_attention_gradient_code,
          size_t(tapeout_attention_gradient_code_end - tapeout_attention_gradient_code)};
}

} // namespace tapeout::codegen
