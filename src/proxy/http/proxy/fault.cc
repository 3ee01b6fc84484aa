#include "proxy/http/proxy/fault.h"

#include "pool/check.h"

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

// No default in these: the compiler then reports a value without an owner.

namespace {

// The client may send any reset that it likes, so nothing that it says speaks against anybody else.
ResetRule client_rule(ResetReason reason) {
  switch (reason) {
    case ResetReason::kMalformed:
    case ResetReason::kTooLarge:
      return {Fault::kClient, HttpEnd::kBadRequest};
    case ResetReason::kUnsendable:  // The response that we were to forward.
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
    case ResetReason::kCancelled:  // An endpoint may refuse a stream, or take it back, and be well.
    case ResetReason::kRefused:
      return {Fault::kNone, HttpEnd::kUpstreamReset};
    case ResetReason::kRejected:  // The endpoint says that the request breaks a rule. The client wrote it.
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
    case HttpEnd::kUpstreamRefused:  // The request asks for what this endpoint does not do.
    case HttpEnd::kIdleTimeout:      // Neither side has moved anything.
    case HttpEnd::kRequestTimeout:   // The time of all attempts and of the client's own pauses.
      return Fault::kNone;
    case HttpEnd::kClientReset:
    case HttpEnd::kBadRequest:
    case HttpEnd::kBadPath:
    case HttpEnd::kNoRoute:
    case HttpEnd::kNotAllowed:
    case HttpEnd::kForbidden:
    case HttpEnd::kUnauthorized:
    case HttpEnd::kBodyTimeout:
    case HttpEnd::kBodyTooLarge:
    case HttpEnd::kSendTimeout:
    case HttpEnd::kDeadline:  // The client chose it.
      return Fault::kClient;
    case HttpEnd::kNoEndpoint:
    case HttpEnd::kUpstreamReset:
    case HttpEnd::kUpstreamMalformed:
    case HttpEnd::kResponseTimeout:
      return Fault::kEndpoint;
    case HttpEnd::kAuthBusy:
    case HttpEnd::kNotResolved:
    case HttpEnd::kTooManyPending:
    case HttpEnd::kStuck:
    case HttpEnd::kShutdown:
      return Fault::kSluice;
  }
  SLUICE_CHECK(false);
  return Fault::kNone;
}

}  // namespace sluice
