// The rules of HTTP that the codecs check, with what each is based on, for logs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "proxy/config/model/config.h"
#include "proxy/http/message/stream.h"

namespace sluice {

/// A rule in one byte: its place in the table; 0: none.
using HttpRuleIndex = uint8_t;

/// The index of a rule, by the text that the codecs have for it (BrokenMessage::rule); 0 if it is not in the table.
HttpRuleIndex rule_index(std::string_view rule);
/// The inverse; empty for 0.
std::string_view rule_text(HttpRuleIndex index);

inline constexpr size_t kRuleTextBytes = 192;
/// Writes a rule and what it is based on, `no Host (RFC 9112 section 3.2)`, or the limit with its value, `a head that
/// is too large (max_head: 32KiB)`. A rule that is not in the table stands alone. The result is in `room`.
std::string_view describe_rule(std::string_view rule, const config::Http& http, std::span<char, kRuleTextBytes> room);

/// The most that is shown of what a client has sent, in bytes of text.
inline constexpr size_t kShownBytes = 200;
/// Describes where a rule is broken, as the end of a line of the log: `, in "GET /x HTTP/1.1"`, or `, in HEADERS of
/// stream 3: GET https://a.example/x`. The text has only visible ASCII, and nothing that may be secret: see
/// shown_line().
std::string describe_place(const BrokenMessage& message);
/// What may be shown of a first line. If it looks like a request: all of it, in quotes, without its query and the user
/// of a URI. Otherwise it may be anything, such as a password of another protocol or a part of a body: then its size,
/// and of the `first` line of a connection the first word.
std::string shown_line(std::string_view line, bool first);

}  // namespace sluice
