// HAProxy's conditions: ACLs, put together by `and`, `or` and `!`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/convert/haproxy/state.h"

namespace sluice::convert::haproxy {

/// What is known about the connections of a listener, so that some ACLs always hold, or never.
struct Surroundings {
  bool has_tls = false;
  bool is_http = true;
  std::string port;  ///< Empty if it has several, or none.
};

/// What an ACL says.
struct Predicate {
  enum class Kind : uint8_t {
    kUnknown,  ///< It has no counterpart.
    kAlways,
    kNever,
    kRequests,     ///< The request is in one of `any`.
    kServerNames,  ///< TLS's server name is one of the hosts of `any`.
  };
  Kind kind = Kind::kUnknown;
  std::vector<RequestSet> any;
};

struct Factor {
  Predicate predicate;
  bool negated = false;
};
using Conjunction = std::vector<Factor>;

/// One of these must hold.
struct Condition {
  std::vector<Conjunction> any;
  std::string unknown;  ///< The first ACL that has no counterpart; empty if all have one.

  bool is_always() const { return any.size() == 1 && any[0].empty() && unknown.empty(); }
};

/// The condition behind `if` or `unless` in a line, from the word at `from` on. Without one it always holds.
Condition parse_condition(const Line& line, size_t from, const Proxy& proxy, const Surroundings& around);

/// Where the condition of a line begins: the index of `if` or `unless`, or the number of words.
size_t condition_index(const Line& line);

/// What a criterion with its values says, as in `hdr(host) -i a.test`.
Predicate parse_criterion(const std::vector<std::string>& words, const Surroundings& around);

}  // namespace sluice::convert::haproxy
