// Fields that services which speak Envoy's protocols want to be set: HeaderValue and HeaderValueOption of
// envoy/config/core/v3/base.proto.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "proxy/http/message/fields.h"
#include "sluice/chunk_pool.h"

namespace sluice {

/// The views point into the message.
struct HeaderOption {
  enum class Action : uint8_t { kAppend = 0, kAddIfAbsent = 1, kSet = 2, kSetIfPresent = 3 };

  std::string_view name;  ///< As the service wrote it.
  std::string_view value;
  Action action = Action::kAppend;
  std::optional<bool> append;  ///< The older way to say it, which some messages prefer.
};

// Each reads one message; nothing if it is malformed.
std::optional<HeaderOption> read_header_value(std::string_view message);
std::optional<HeaderOption> read_header_option(std::string_view message);

/// Whether a service may set the field: its name and value are well-formed, and it belongs neither to one connection or
/// to the framing of a message, nor names the host.
bool is_settable(const HeaderOption& option);
/// Does to the fields what the option says. Returns false if there is no room. Precondition: is_settable().
[[nodiscard]] bool set_field(ChunkPool& pool, const HeaderOption& option, HeaderOption::Action action, Fields& to);
/// Removes the field, whose name is in any case, unless it is one that no service may set.
void remove_field(std::string_view name, Fields& from);

}  // namespace sluice
