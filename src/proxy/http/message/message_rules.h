// Rules for messages that do not depend on the HTTP version.
#pragma once

#include <string_view>

namespace sluice {

/// host [":" port], where the host is a name, an IPv4 address, or an IPv6 address in brackets, and the port may be
/// empty (RFC 3986 section 3.2.3). No user, no percent-encoded octets, no IPvFuture.
bool is_authority(std::string_view text);
/// Removes the colon before an empty port: by RFC 3986 section 6.2.3 both forms are equivalent. Precondition:
/// is_authority().
constexpr std::string_view without_empty_port(std::string_view authority) {
  if (authority.ends_with(':')) authority.remove_suffix(1);
  return authority;
}

/// Whether a method, which must be a token, is forwarded: it has no lower-case letters and is not PRI (RFC 9113 section
/// 11.6). Methods are case-sensitive, and all registered ones are upper case. A server that ignores case would see a
/// `get` that the routes did not see, and after `head` or `connect` would expect another end of the response. The rule
/// also refuses a method that follows leftover bytes of a body (`xGET`).
bool is_method_to_forward(std::string_view method);

/// Whether a field is for the final recipient of the message, or identifies its sender. A Connection option must not
/// remove it.
bool is_end_to_end(std::string_view name);

/// Whether a field may be in trailers. Fields that control how to parse, route or evaluate a message may not: after the
/// body they come too late (RFC 9110 section 6.5.1).
bool may_be_in_trailers(std::string_view name);

/// Whether a method is idempotent: sending it twice has the same effect as sending it once (RFC 9110 section 9.2.2).
bool is_idempotent(std::string_view method);

}  // namespace sluice
