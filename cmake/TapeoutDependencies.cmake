# Everything that is found outside the tree. tools/setup installs it on Debian and Ubuntu.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(GTest REQUIRED)
find_program(TAPEOUT_FLATC flatc REQUIRED)
find_path(TAPEOUT_FLATBUFFERS_INCLUDE flatbuffers/flatbuffers.h REQUIRED)
find_library(TAPEOUT_JPEG_ARCHIVE libturbojpeg.a REQUIRED)
find_library(TAPEOUT_PNG_ARCHIVE libpng.a REQUIRED)
find_library(TAPEOUT_ZLIB_ARCHIVE libz.a REQUIRED)

if(TAPEOUT_BUILD_COMPILER)
  # 19.1, not 19: the package's version file accepts only a matching minor version.
  find_package(MLIR 19.1 REQUIRED CONFIG HINTS /usr/lib/llvm-19/lib/cmake/mlir)
  # Of LLVM's version: its bitcode is read by the compiler.
  find_program(TAPEOUT_DEVICE_CLANG clang++-19 REQUIRED HINTS /usr/lib/llvm-19/bin)
  list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
  include(TableGen)
  include(AddLLVM)
  include(AddMLIR)
endif()
