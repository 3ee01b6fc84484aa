// Request ids, trace context, and the fields that carry the client's address.
#pragma once

#include <cstdint>

#include "proxy/config/model/field_name.h"

namespace sluice::config {

/// How a client's X-Forwarded-For or Forwarded (RFC 7239) field is changed before it is forwarded.
enum class ForwardedFor : uint8_t {
  kAppend,   ///< The client's address is appended, as in nginx, HAProxy and Envoy.
  kReplace,  ///< The client's address replaces the field's value.
  kOff,      ///< The field is forwarded unchanged.
};

/// Which peers are trusted to supply a value.
enum class TrustFrom : uint8_t { kNever, kTrusted, kAlways };

/// A number for each request, which identifies it in all logs.
struct RequestId {
  FieldName header;                      ///< Empty: none.
  TrustFrom accept = TrustFrom::kNever;  ///< Which peers' ids are forwarded instead of a new one.
  bool respond = false;                  ///< Whether the response carries the id too.

  bool operator==(const RequestId&) const = default;
};

/// How traceparent (W3C Trace Context) is handled.
enum class TraceContext : uint8_t {
  kOff,   ///< As an ordinary field.
  kPass,  ///< A client's traceparent is forwarded with Sluice as the parent.
  kMake,  ///< As kPass, and a missing traceparent is generated.
};

}  // namespace sluice::config
