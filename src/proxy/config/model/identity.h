// What tells one request from another, and on whose behalf it comes.
#pragma once

#include <cstdint>

#include "proxy/config/model/field_name.h"

namespace sluice::config {

/// What is done with a field that names those on the way, X-Forwarded-For or Forwarded (RFC 7239), of a client.
enum class ForwardedFor : uint8_t {
  kAppend,   ///< Its address is added behind what it says, as nginx, HAProxy and Envoy do.
  kReplace,  ///< Its address takes the place of what it says.
  kOff,      ///< What it says is passed on.
};

/// From whom something is believed.
enum class Believe : uint8_t { kNever, kTrusted, kAlways };

/// A number for each request, by which it is found in all logs.
struct RequestId {
  FieldName header;                  ///< Empty: none.
  Believe accept = Believe::kNever;  ///< Whose is passed on, instead of a new one.
  bool respond = false;              ///< Whether the client is told.

  bool operator==(const RequestId&) const = default;
};

/// What is done with traceparent (W3C Trace Context).
enum class TraceContext : uint8_t {
  kOff,   ///< It is a field as any other.
  kPass,  ///< A client's is passed on with ourselves as the parent.
  kMake,  ///< The same, and where there is none one is made.
};

}  // namespace sluice::config
