#include "proxy/profile/program_symbols.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace sluice {

namespace {

constexpr std::string_view kAnonymous = "(anonymous namespace)";

// Copies a demangled name without what is in parentheses: parameters.
std::string without_parameters(std::string_view name) {
  std::string text;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] != '(') {
      text += name[i];
    } else if (name.substr(i).starts_with(kAnonymous)) {
      text += kAnonymous;
      i += kAnonymous.size() - 1;
    } else if (absl::EndsWith(text, "operator") && name.substr(i).starts_with("()")) {
      text += "()";
      ++i;
    } else {
      for (int depth = 0; i < name.size(); ++i) {
        depth += name[i] == '(' ? 1 : name[i] == ')' ? -1 : 0;
        if (depth == 0) break;
      }
    }
  }
  return text;
}

// Drops the result of a function template, which precedes its name, and what follows the parameters (` const`).
std::string_view without_result(std::string_view name) {
  while (true) {
    const size_t blank = name.rfind(' ');
    const std::string_view last = blank == std::string_view::npos ? "" : name.substr(blank + 1);
    if (last != "const" && last != "volatile" && last != "&" && last != "&&") break;
    name.remove_suffix(last.size() + 1);
  }
  int depth = 0;
  for (size_t i = name.size(); i-- > 0;) {
    if (name[i] == '>' || name[i] == '}' || name[i] == ')' || name[i] == ']') ++depth;
    if (name[i] == '<' || name[i] == '{' || name[i] == '(' || name[i] == '[') --depth;
    const std::string_view before = name.substr(0, i);
    if (name[i] != ' ' || depth != 0 || absl::EndsWith(before, "operator")) continue;
    return name.substr(i + 1);
  }
  return name;
}

// The file's name of a path.
std::string_view last_part(std::string_view path) { return path.substr(path.rfind('/') + 1); }

template <class T>
const T* object_at(std::span<const std::byte> file, uint64_t offset, uint64_t count = 1) {
  if (offset > file.size() || count > (file.size() - offset) / sizeof(T)) return nullptr;
  const std::byte* const at = file.data() + offset;
  return reinterpret_cast<uintptr_t>(at) % alignof(T) == 0 ? reinterpret_cast<const T*>(at) : nullptr;
}

}  // namespace

std::string function_name(const char* symbol) {
  std::string_view plain = symbol;
  // Suffixes such as `.constprop.0`. A name may begin with a dot.
  if (const size_t dot = plain.find('.', 1); dot != std::string_view::npos) plain = plain.substr(0, dot);
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> demangled(
      abi::__cxa_demangle(std::string(plain).c_str(), nullptr, nullptr, &status), std::free);
  std::string name(plain);
  if (demangled) {
    name = without_result(without_parameters(demangled.get()));
    name = absl::StrReplaceAll(name, {{absl::StrCat(kAnonymous, "::"), ""}, {"v0_1::", ""}, {"__cxx11::", ""}});
  }
  std::replace(name.begin(), name.end(), ';', ':');
  if (name.size() > kMaxNameBytes) name = absl::StrCat(name.substr(0, kMaxNameBytes - 3), "...");
  return name;
}

ProgramSymbols::ProgramSymbols() {
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* self) {  // The first one is the program.
        auto& symbols = *static_cast<ProgramSymbols*>(self);
        symbols.base_ = info->dlpi_addr;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr)& part = info->dlpi_phdr[i];
          if (part.p_type == PT_LOAD)
            symbols.end_ = std::max(symbols.end_, info->dlpi_addr + part.p_vaddr + part.p_memsz);
        }
        return 1;
      },
      this);
  const int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  struct stat about{};
  if (fstat(fd, &about) == 0 && about.st_size > 0) {
    const auto bytes = static_cast<size_t>(about.st_size);
    void* const mapped = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (mapped != MAP_FAILED) file_ = {static_cast<const std::byte*>(mapped), bytes};
  }
  close(fd);
  read(file_);
}

ProgramSymbols::~ProgramSymbols() {
  if (!file_.empty()) munmap(const_cast<std::byte*>(file_.data()), file_.size());
}

void ProgramSymbols::read(std::span<const std::byte> file) {
  const auto* const head = object_at<ElfW(Ehdr)>(file, 0);
  if (!head || std::memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_shentsize != sizeof(ElfW(Shdr))) return;
  const auto* const sections = object_at<ElfW(Shdr)>(file, head->e_shoff, head->e_shnum);
  if (!sections) return;
  for (size_t i = 0; i < head->e_shnum; ++i) {
    const ElfW(Shdr)& table = sections[i];
    if (table.sh_type != SHT_SYMTAB || table.sh_link >= head->e_shnum) continue;
    const uint64_t count = table.sh_size / sizeof(ElfW(Sym));
    const auto* const symbols = object_at<ElfW(Sym)>(file, table.sh_offset, count);
    const ElfW(Shdr)& names = sections[table.sh_link];
    const auto* const text = object_at<char>(file, names.sh_offset, names.sh_size);
    if (!symbols || !text || names.sh_size == 0 || text[names.sh_size - 1] != '\0') continue;
    for (uint64_t each = 0; each < count; ++each) {
      const ElfW(Sym)& symbol = symbols[each];
      const bool is_function = (symbol.st_info & 0xf) == STT_FUNC && symbol.st_shndx != SHN_UNDEF;
      if (!is_function || symbol.st_name >= names.sh_size) continue;
      functions_.push_back({symbol.st_value, symbol.st_size, text + symbol.st_name});
    }
  }
  std::sort(functions_.begin(), functions_.end(),
            [](const Function& a, const Function& b) { return a.begin < b.begin; });
}

const std::string& ProgramSymbols::name_of(uintptr_t address) {
  const auto [at, is_new] = known_.try_emplace(address);
  if (is_new) at->second = find(address);
  return at->second;
}

std::string ProgramSymbols::find(uintptr_t address) const {
  if (address >= base_ && address < end_) {
    const uint64_t offset = address - base_;
    auto next = std::upper_bound(functions_.begin(), functions_.end(), offset,
                                 [](uint64_t value, const Function& each) { return value < each.begin; });
    // Functions of assembly may have no size.
    if (next != functions_.begin() && (--next, next->bytes == 0 || offset - next->begin < next->bytes)) {
      return function_name(next->name);
    }
    return absl::StrCat("sluice+0x", absl::Hex(offset));
  }
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(address), &info) == 0 || !info.dli_fname) return "[unknown]";
  if (info.dli_sname) return function_name(info.dli_sname);
  // Libraries export only some of their functions.
  return absl::StrCat("[", last_part(info.dli_fname), "]");
}

}  // namespace sluice
