// Rules of messages that do not depend on the version of HTTP that carries them.
#pragma once

#include <string_view>

namespace sluice {

/// host [":" port], where the host is a name, an IPv4 address, or an IPv6 address in brackets. No user.
bool is_authority(std::string_view text);

/// Fields that are for the message's last reader, or say who sent it: no Connection option takes them away.
bool is_end_to_end(std::string_view name);

/// Not so are fields that say how to read, route or judge the message: too late behind its body (RFC 9110 section
/// 6.5.1).
bool may_be_in_trailers(std::string_view name);

/// A method that may be sent twice, as it has the same effect as once (RFC 9110 section 9.2.2).
bool is_idempotent(std::string_view method);

}  // namespace sluice
