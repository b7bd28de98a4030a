#include "runtime/device/cuda/LibrarySearch.h"

#include <fmt/format.h>

#include <dlfcn.h>
#include <glob.h>

#include <algorithm>
#include <cstdlib>

namespace tapeout::rt {
namespace {

std::string variable(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

/// Folders that match a shell pattern, sorted.
void addMatches(const std::string &pattern, std::vector<std::string> &folders) {
  glob_t matches = {};
  if (glob(pattern.c_str(), GLOB_ONLYDIR, nullptr, &matches) == 0)
    for (size_t i = 0; i < matches.gl_pathc; ++i)
      if (std::string folder = matches.gl_pathv[i]; std::find(folders.begin(), folders.end(), folder) == folders.end())
        folders.push_back(std::move(folder));
  globfree(&matches);
}

} // namespace

std::vector<std::string> nvidiaLibraryFolders(const std::string &root) {
  std::vector<std::string> folders;
  std::vector<std::string> toolkits = {"/usr/local/cuda"};
  if (std::string home = variable("CUDA_HOME"); !home.empty())
    toolkits.insert(toolkits.begin(), home);
  for (const std::string &toolkit : toolkits)
    for (const char *libraries : {"/lib64", "/extras/CUPTI/lib64"})
      addMatches(root + toolkit + libraries, folders);
  std::vector<std::string> prefixes = {"/usr", "/usr/local", "/opt/*/.venv", "/opt/*"};
  if (std::string home = variable("HOME"); !home.empty())
    prefixes.insert(prefixes.begin(), home + "/.local");
  if (std::string environment = variable("VIRTUAL_ENV"); !environment.empty())
    prefixes.insert(prefixes.begin(), environment);
  for (const std::string &prefix : prefixes)
    for (const char *packages : {"site-packages", "dist-packages"}) // wheels: nvidia/cu13/lib, nvidia/cublas/lib...
      addMatches(root + prefix + "/lib/python3*/" + packages + "/nvidia/*/lib", folders);
  return folders;
}

Result<void *> openLibrary(std::span<const char *const> names, std::span<const std::string> folders,
                           const std::string &need, const std::string &remedy) {
  std::string reason;
  auto open = [&](const std::string &path) {
    void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library && reason.empty())
      reason = dlerror();
    return library;
  };
  for (const char *name : names)
    if (void *library = open(name))
      return library;
  for (const std::string &folder : folders)
    for (const char *name : names)
      if (void *library = open(folder + "/" + name))
        return library;
  return Status::error(ExitCode::Unavailable, fmt::format("{} ({}); {}", need, reason, remedy));
}

void *SymbolTable::lookUp(const char *name) const { return dlsym(library_, name); }

Status SymbolTable::status(const char *library) const {
  if (!missing_)
    return Status::ok();
  return Status::error(ExitCode::Unavailable,
                       fmt::format("{} is too old: it lacks the function {}; install a newer one", library, missing_));
}

} // namespace tapeout::rt
