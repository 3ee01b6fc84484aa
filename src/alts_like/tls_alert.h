#pragma once

#include <cstdint>
#include <string_view>

namespace sluice {

/// RFC 8446 section 6, RFC 5246 section 7.2; only those that a record layer sends or must tell apart.
enum class TlsAlert : uint8_t {
  kCloseNotify = 0,
  kUnexpectedMessage = 10,
  kBadRecordMac = 20,
  kRecordOverflow = 22,
  kHandshakeFailure = 40,
  kIllegalParameter = 47,
  kDecodeError = 50,
  kProtocolVersion = 70,
  kInternalError = 80,
  kUserCanceled = 90,
  kNoRenegotiation = 100,
};

/// The name that RFC 8446 gives an alert, or RFC 5246, or "unknown_alert".
std::string_view tls_alert_name(uint8_t alert);

}  // namespace sluice
