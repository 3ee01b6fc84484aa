#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace sluice {

/// The name of a function without its parameters, its result, the namespaces that say nothing, and the suffixes that
/// the compiler adds: `_ZN6sluice3fooEi.constprop.0` becomes `sluice::foo`. At most kMaxNameBytes; without `;`.
std::string function_name(const char* symbol);
inline constexpr size_t kMaxNameBytes = 200;

/// Names of the functions of this process, from the symbol table of the program's file and the exported names of its
/// libraries. A program that was stripped has none: its addresses are given as the file's name and the offset in it,
/// which addr2line understands. Not thread-safe.
class ProgramSymbols {
 public:
  /// Reads the program's own symbols. Takes about 10 ms.
  ProgramSymbols();
  ~ProgramSymbols();
  ProgramSymbols(const ProgramSymbols&) = delete;
  ProgramSymbols& operator=(const ProgramSymbols&) = delete;

  /// The function that has the instruction at an address. The reference is valid until the next call.
  const std::string& name_of(uintptr_t address);
  /// Whether the program has symbols of its own.
  bool has_own() const { return !functions_.empty(); }

 private:
  struct Function {
    uint64_t begin, bytes;  // Offset in the program.
    const char* name;       // In file_.
  };
  void read(std::span<const std::byte> file);
  std::string find(uintptr_t address) const;

  std::span<const std::byte> file_;  // Mapped.
  uintptr_t base_ = 0;               // Where the program is in memory.
  uintptr_t end_ = 0;
  std::vector<Function> functions_;  // Sorted.
  absl::flat_hash_map<uintptr_t, std::string> known_;
};

}  // namespace sluice
