// Values of other proxies in the form of Sluice's configuration.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace sluice::convert {

/// The longest duration that the configuration takes: 8760h.
inline constexpr int64_t kLongestMs = int64_t{8760} * 3600 * 1000;

/// `250ms`, `5s`, `0`: what the configuration takes, at most 8760h.
std::string duration_text(std::chrono::milliseconds duration);

/// `16KiB`, `1MiB`, `1000`.
std::string size_text(uint64_t bytes);

/// A text in which percent signs stand for themselves, where variables are possible.
std::string escape_percent(std::string_view text);

/// Gives each name of another proxy a valid one of its own, of 1 to 64 letters, digits, `_`, `-` and `.`.
class NameTable {
 public:
  /// The same name for the same `wanted`.
  std::string name_for(std::string_view wanted);
  /// A name that is not in use yet.
  std::string new_name(std::string_view wanted);

 private:
  std::map<std::string, std::string, std::less<>> names_;
  std::map<std::string, int, std::less<>> used_;
};

}  // namespace sluice::convert
