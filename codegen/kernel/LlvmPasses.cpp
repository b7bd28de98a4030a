#include "codegen/kernel/LlvmPasses.h"

#include "llvm/Passes/PassBuilder.h"

namespace tapeout::codegen {

void runLlvmPasses(llvm::Module &module, llvm::TargetMachine &machine, llvm::StringRef pipeline) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder passes(&machine);
  passes.registerModuleAnalyses(modules);
  passes.registerCGSCCAnalyses(sccs);
  passes.registerFunctionAnalyses(functions);
  passes.registerLoopAnalyses(loops);
  passes.crossRegisterProxies(loops, functions, sccs, modules);
  llvm::ModulePassManager manager;
  llvm::cantFail(passes.parsePassPipeline(manager, pipeline));
  manager.run(module, modules);
}

} // namespace tapeout::codegen
