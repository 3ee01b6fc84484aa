// Rules of messages that do not depend on the version of HTTP that carries them.
#pragma once

#include <string_view>

namespace sluice {

/// host [":" port], where the host is a name, an IPv4 address, or an IPv6 address in brackets, and the port may be
/// empty (RFC 3986 section 3.2.3). No user, no percent-encoded octets, no IPvFuture.
bool is_authority(std::string_view text);
/// Without the colon in front of an empty port: RFC 3986 section 6.2.3 makes both the same. Precondition:
/// is_authority().
constexpr std::string_view without_empty_port(std::string_view authority) {
  if (authority.ends_with(':')) authority.remove_suffix(1);
  return authority;
}

/// Of methods that are tokens: those without small letters, and not PRI (RFC 9113 section 11.6). The case counts, and
/// all that are registered are capitals. A server that ignores it would see `get` where routes did not, and with `head`
/// and `connect` another end of the response; and what is left of some body in front of a method (`xGET`) is none.
bool is_method_to_forward(std::string_view method);

/// Fields that are for the message's last reader, or say who sent it: no Connection option takes them away.
bool is_end_to_end(std::string_view name);

/// Not so are fields that say how to read, route or judge the message: too late behind its body (RFC 9110 section
/// 6.5.1).
bool may_be_in_trailers(std::string_view name);

/// A method that may be sent twice, as it has the same effect as once (RFC 9110 section 9.2.2).
bool is_idempotent(std::string_view method);

}  // namespace sluice
