#include "pool/leak_stacks.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sluice::inline v0_1 {

namespace {

constexpr size_t kMaxSites = 16;
// Upper bound on the frames between capture and the first frame to record.
constexpr size_t kOwnFrames = 8;

// A code location, as far as the dynamic linker knows it.
struct Place {
  std::string module;
  uintptr_t offset = 0;  // Within the module's file, for addr2line.
  std::string function;  // Empty when no symbol is known.
  uintptr_t behind = 0;  // Offset from the start of the function, in bytes.
};

std::string path_of_program() {
  std::string path(4096, '\0');
  const ssize_t size = readlink("/proc/self/exe", path.data(), path.size());
  path.resize(size > 0 ? static_cast<size_t>(size) : 0);
  return path;
}

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free);
  return text ? text.get() : name;
}

// `address` is a return address. The call precedes it and may be the last instruction of its function.
Place place_of(void* address) {
  Place place;
  const uintptr_t call = reinterpret_cast<uintptr_t>(address) - 1;
  Dl_info info{};
  void* extra = nullptr;
  if (dladdr1(reinterpret_cast<void*>(call), &info, &extra, RTLD_DL_LINKMAP) == 0) return place;
  const link_map* map = static_cast<const link_map*>(extra);
  place.module = map->l_name[0] ? map->l_name : path_of_program();
  place.offset = call - map->l_addr;
  if (info.dli_sname) {
    place.function = demangled(info.dli_sname);
    place.behind = call - reinterpret_cast<uintptr_t>(info.dli_saddr);
  }
  return place;
}

}  // namespace

uint32_t LeakStacks::every_from_environment() {
  static const uint32_t every = [] {
    const char* text = std::getenv("SLUICE_LEAK_STACKS");
    return text ? static_cast<uint32_t>(std::strtoul(text, nullptr, 10)) : 0;
  }();
  return every;
}

void LeakStacks::capture(const Chunk* chunk, const void* caller) {
  std::array<void*, kMaxFrames + kOwnFrames> frames{};
  backtrace(frames.data(), static_cast<int>(frames.size()));
  const auto own_end = frames.begin() + kOwnFrames;
  const auto found = std::find(frames.begin(), own_end, caller);
  const auto begin = found == own_end ? frames.begin() : found;
  Stack& stack = stacks_[chunk];
  std::copy(begin, begin + kMaxFrames, stack.begin());
}

void LeakStacks::report(std::FILE* out) const {
  struct Site {
    size_t chunks = 0;
    size_t bytes = 0;
  };
  std::map<Stack, Site> merged;
  for (const auto& [chunk, stack] : stacks_) {
    Site& site = merged[stack];
    ++site.chunks;
    site.bytes += chunk_capacity(*chunk);
  }
  std::vector<std::pair<Stack, Site>> sites(merged.begin(), merged.end());
  std::sort(sites.begin(), sites.end(), [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  std::fprintf(out, "sluice: leak: %zu of these were sampled (1 of %u):\n", stacks_.size(), every_);
  if (sites.size() > kMaxSites) {
    std::fprintf(out, "  (the %zu places with the most bytes, of %zu)\n", kMaxSites, sites.size());
    sites.resize(kMaxSites);
  }
  std::map<std::string, std::vector<uintptr_t>> modules;
  for (const auto& [stack, site] : sites) {
    std::fprintf(out, "  %zu of %zu bytes in all, taken at\n", site.chunks, site.bytes);
    for (int number = 0; void* address : stack) {
      if (address == nullptr) break;
      const Place place = place_of(address);
      std::fprintf(out, "    #%-2d %s", number++, place.function.empty() ? "??" : place.function.c_str());
      if (!place.function.empty()) std::fprintf(out, "+0x%zx", static_cast<size_t>(place.behind));
      std::fprintf(out, " (%s+0x%zx)\n", place.module.empty() ? "??" : place.module.c_str(),
                   static_cast<size_t>(place.offset));
      std::vector<uintptr_t>& offsets = modules[place.module];
      if (std::find(offsets.begin(), offsets.end(), place.offset) == offsets.end()) offsets.push_back(place.offset);
    }
  }
  if (modules.empty()) return;
  std::fprintf(out, "  files and lines:\n");
  for (const auto& [module, offsets] : modules) {
    if (module.empty()) continue;
    std::fprintf(out, "    addr2line -Cfipe '%s'", module.c_str());
    for (const uintptr_t offset : offsets) std::fprintf(out, " 0x%zx", static_cast<size_t>(offset));
    std::fputc('\n', out);
  }
}

}  // namespace sluice::inline v0_1
