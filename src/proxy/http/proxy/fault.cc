#include "proxy/http/proxy/fault.h"

#include "sluice/internal/check.h"

namespace sluice {

const char* fault_name(Fault fault) {
  switch (fault) {
    case Fault::kNone:
      return "nobody";
    case Fault::kClient:
      return "client";
    case Fault::kEndpoint:
      return "endpoint";
    case Fault::kSluice:
      return "sluice";
  }
  SLUICE_CHECK(false);
  return "";
}

// These switches have no default, so that the compiler reports a value without an entry.

namespace {

// The client may send any reset, so a reset from it is never the fault of another side.
ResetRule client_rule(ResetReason reason) {
  switch (reason) {
    case ResetReason::kMalformed:
    case ResetReason::kTooLarge:
      return {Fault::kClient, HttpEnd::kBadRequest};
    case ResetReason::kUnsendable:  // The response that was to be forwarded.
      return {Fault::kEndpoint, HttpEnd::kUpstreamMalformed};
    case ResetReason::kCancelled:
    case ResetReason::kRefused:
    case ResetReason::kRejected:
    case ResetReason::kTimeout:
    case ResetReason::kOverload:
    case ResetReason::kInternal:
    case ResetReason::kConnectionLost:
      return {Fault::kClient, HttpEnd::kClientReset};
  }
  SLUICE_CHECK(false);
  return {};
}

ResetRule upstream_rule(ResetReason reason) {
  switch (reason) {
    case ResetReason::kCancelled:  // A healthy endpoint may refuse or cancel a stream.
    case ResetReason::kRefused:
      return {Fault::kNone, HttpEnd::kUpstreamReset};
    case ResetReason::kRejected:  // The endpoint reports that the request breaks a rule. The client wrote it.
      return {Fault::kClient, HttpEnd::kUpstreamRefused};
    case ResetReason::kUnsendable:
      return {Fault::kClient, HttpEnd::kBadRequest};
    case ResetReason::kMalformed:
    case ResetReason::kTooLarge:
      return {Fault::kEndpoint, HttpEnd::kUpstreamMalformed};
    case ResetReason::kTimeout:
    case ResetReason::kOverload:
    case ResetReason::kInternal:
    case ResetReason::kConnectionLost:
      return {Fault::kEndpoint, HttpEnd::kUpstreamReset};
  }
  SLUICE_CHECK(false);
  return {};
}

}  // namespace

ResetRule reset_rule(Side side, ResetReason reason) {
  return side == Side::kClient ? client_rule(reason) : upstream_rule(reason);
}

Fault fault_of(HttpEnd end) {
  switch (end) {
    case HttpEnd::kOk:
    case HttpEnd::kMoved:
    case HttpEnd::kUpstreamRefused:  // The endpoint does not support what the request needs.
    case HttpEnd::kIdleTimeout:      // Neither side made progress.
    case HttpEnd::kRequestTimeout:   // It covers all attempts and the client's own pauses.
      return Fault::kNone;
    case HttpEnd::kClientReset:
    case HttpEnd::kBadRequest:
    case HttpEnd::kBadPath:
    case HttpEnd::kNoRoute:
    case HttpEnd::kMisdirected:
    case HttpEnd::kNotAllowed:
    case HttpEnd::kForbidden:
    case HttpEnd::kUnauthorized:
    case HttpEnd::kAuthRefused:
    case HttpEnd::kRateLimited:
    case HttpEnd::kBodyTimeout:
    case HttpEnd::kBodyTooLarge:
    case HttpEnd::kSendTimeout:
    case HttpEnd::kDeadline:  // The client set the deadline.
      return Fault::kClient;
    case HttpEnd::kAuthFailed:       // An endpoint of the authorizer.
    case HttpEnd::kRateLimitFailed:  // One of the service of rate limits.
    case HttpEnd::kNoEndpoint:
    case HttpEnd::kUpstreamReset:
    case HttpEnd::kUpstreamMalformed:
    case HttpEnd::kResponseTimeout:
      return Fault::kEndpoint;
    case HttpEnd::kAuthBusy:
    case HttpEnd::kMaintenance:
    case HttpEnd::kNotResolved:
    case HttpEnd::kTooManyPending:
    case HttpEnd::kConcurrencyLimit:
    case HttpEnd::kOverload:
    case HttpEnd::kStuck:
    case HttpEnd::kShutdown:
      return Fault::kSluice;
  }
  SLUICE_CHECK(false);
  return Fault::kNone;
}

}  // namespace sluice
