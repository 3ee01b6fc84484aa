#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "proxy/config/model/address.h"
#include "proxy/config/model/listener_tls.h"
#include "proxy/config/model/units.h"

namespace sluice::config {

/// The permissions of a file, as a user writes them: three or four octal digits, such as `0660`.
class FileMode {
 public:
  FileMode() = default;
  /// Precondition: at most 0777.
  explicit constexpr FileMode(uint32_t bits) : bits_(bits) {}

  static absl::StatusOr<FileMode> parse(std::string_view text);

  /// The argument of chmod().
  uint32_t bits() const { return bits_; }
  /// In the form that parse() reads, with four digits.
  std::string text() const;

  bool operator==(const FileMode&) const = default;

 private:
  uint32_t bits_ = 0;
};

/// The admin listener, for operators and their tools.
struct Admin {
  std::vector<Address> addresses;  ///< At least one.
  FileMode mode{0600};             ///< Of the files of Unix sockets.
  std::string token_file;          ///< Has the token that each request must carry. Empty: none is needed.
  std::optional<ListenerTls> tls;  ///< On all addresses but Unix sockets.
  /// Whether there is a page of the counters under Envoy's names. With a control plane there always is.
  bool envoy_stats = false;
  /// Open connections; 64 is enough for a few scrapers and people, and bounds the memory of slow readers.
  uint32_t max_connections = 64;
  Duration idle_timeout = std::chrono::seconds(60);    ///< Time without a request.
  Duration header_timeout = std::chrono::seconds(10);  ///< For a request, from its first byte to its last.
  Duration send_timeout = std::chrono::seconds(10);    ///< Time in which a client takes nothing of a response.

  bool operator==(const Admin&) const = default;
};

}  // namespace sluice::config
