# lit configuration: runs the .mlir tests with tapeout-opt and FileCheck. CMake passes the build folder.
import os

import lit.formats

config.name = "tapeout"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.test_source_root = os.path.dirname(__file__)
build = lit_config.params["build"]
config.test_exec_root = os.path.join(build, "lit")
config.environment["PATH"] = os.pathsep.join(
    [os.path.join(build, "bin"), "/usr/lib/llvm-19/bin", config.environment["PATH"]])
