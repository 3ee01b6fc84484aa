#pragma once

#include <cstdint>
#include <string_view>

namespace sluice {

/// The alerts that a record layer sends or must distinguish (RFC 8446 section 6, RFC 5246 section 7.2).
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

/// The alert's name in RFC 8446 or RFC 5246, or "unknown_alert".
std::string_view tls_alert_name(uint8_t alert);

}  // namespace sluice
