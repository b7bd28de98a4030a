#include "codegen/cuda/device/DeviceCode.h"

// TAPEOUT_DEVICE_CODE: the folder of the bitcode, set by the build.
#define CODE(symbol, file)                                                                                             \
  asm(".section .rodata\n"                                                                                             \
      ".balign 16\n" #symbol ":\n"                                                                                     \
      ".incbin \"" TAPEOUT_DEVICE_CODE "/" file "\"\n" #symbol "_end:\n"                                               \
      ".byte 0\n"                                                                                                      \
      ".text\n");                                                                                                      \
  extern "C" {                                                                                                         \
  extern const char symbol[], symbol##_end[];                                                                          \
  }
CODE(tapeout_attention_gradient_code, "AttentionGradient.bc")
CODE(tapeout_gelu_product_code, "GeluProduct.bc")

namespace tapeout::codegen {

llvm::StringRef attentionGradientCode() {
  return {tapeout_attention_gradient_code,
          size_t(tapeout_attention_gradient_code_end - tapeout_attention_gradient_code)};
}
llvm::StringRef geluProductCode() {
  return {tapeout_gelu_product_code, size_t(tapeout_gelu_product_code_end - tapeout_gelu_product_code)};
}

} // namespace tapeout::codegen
