// A kernel that takes tensor maps, as clang leaves it.
#pragma once

#include "codegen/cuda/Ptx.h"

#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/SourceMgr.h"

#include <gtest/gtest.h>

namespace tapeout::codegen {

/// Its PTX for sm_90a. `mapped(out, a, b)` reads through the maps a and b, by their addresses.
inline std::string tensorMapPtx() {
  constexpr char kText[] = R"(
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
%Map = type { [16 x i64] }
define void @mapped(ptr %out, ptr byval(%Map) align 64 %a, ptr byval(%Map) align 64 %b) {
  call void asm sideeffect "prefetch.tensormap [$0];", "l,~{memory}"(ptr %a)
  call void asm sideeffect "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes
      [$0], [$1, {$2, $3}], [$4];", "r,l,r,r,r,~{memory}"(i32 1024, ptr %b, i32 0, i32 0, i32 0)
  store i32 1, ptr %out
  ret void
})";
  llvm::LLVMContext context;
  llvm::SMDiagnostic error;
  std::unique_ptr<llvm::Module> module = llvm::parseAssemblyString(kText, error, context);
  EXPECT_TRUE(module) << error.getMessage().str();
  return module ? emitPtx(*module, "sm_90a", {{{"mapped", 128}}, /*limitRegisters=*/false}) : "";
}

} // namespace tapeout::codegen
