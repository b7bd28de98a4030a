# How every target of the project is built. See docs/architecture.md for who may depend on whom.

find_program(TAPEOUT_CCACHE ccache)
if(TAPEOUT_CCACHE)
  # Precompiled headers are cached only with these two relaxations; relative paths let every checkout share the cache.
  set(ccache_command ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}
      CCACHE_NOHASHDIR=1 ${TAPEOUT_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${ccache_command})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${ccache_command})
endif()

# The default ld.lld of Debian 12 is version 14; -B points at the one that belongs to our LLVM.
if(EXISTS /usr/lib/llvm-19/bin/ld.lld)
  add_link_options(-fuse-ld=lld -B/usr/lib/llvm-19/bin)
endif()

add_compile_options(-Wall -Wextra -Werror=return-type -Wno-unused-parameter -ffp-contract=off)
if(TAPEOUT_SANITIZE)
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
endif()

# Libraries and tools that use MLIR share LLVM's headers, its -fno-rtti and one precompiled header.
function(tapeout_use_mlir target)
  target_include_directories(${target} SYSTEM PUBLIC ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
  # -O1: the compiler is bound by LLVM, and its own templates cost build time.
  target_compile_options(${target} PRIVATE -fno-rtti $<$<NOT:$<CONFIG:Debug>>:-O1>)
  target_link_libraries(${target} PUBLIC MLIR LLVM) # the shared libraries
endfunction()

function(tapeout_add_library target)
  add_library(${target} STATIC ${ARGN})
  target_include_directories(${target} PUBLIC ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
endfunction()

# tapeout_add_test(name SOURCES... LIBS...): one GoogleTest executable, one CTest entry.
function(tapeout_add_test name)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
  target_link_libraries(${name} PRIVATE ${arg_LIBS} GTest::gtest GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name})
endfunction()

# tapeout_flatbuffers(target schema): generates <schema>_generated.h in the mirrored build folder.
function(tapeout_flatbuffers target schema)
  get_filename_component(name ${schema} NAME_WE)
  set(header ${CMAKE_CURRENT_BINARY_DIR}/${name}_generated.h)
  add_custom_command(OUTPUT ${header}
    COMMAND ${TAPEOUT_FLATC} --cpp --scoped-enums --gen-object-api -o ${CMAKE_CURRENT_BINARY_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/${schema}
    DEPENDS ${schema} VERBATIM)
  add_custom_target(${target} DEPENDS ${header})
endfunction()
