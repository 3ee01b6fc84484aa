// The condition of `if`.
#pragma once

#include "proxy/convert/nginx/server_context.h"

namespace sluice::convert::nginx {

struct Condition {
  enum class Kind : uint8_t {
    kUnknown,  ///< It has no counterpart.
    kAlways,
    kNever,
    kIn,     ///< Where the request is in `set`.
    kNotIn,  ///< Where it is not.
  };
  Kind kind = Kind::kUnknown;
  RequestSet set = {};
};

Condition map_condition(const Directive& directive, const ServerContext& server);

}  // namespace sluice::convert::nginx
