#include "proxy/access_log/record_values.h"

#include "proxy/router/text_variables.h"

namespace sluice {

using config::TextVariable;

std::optional<uint64_t> number_of_record(TextVariable variable, const AccessRecord& record) {
  switch (variable) {
    case TextVariable::kStatus:
      return record.status;
    case TextVariable::kDuration:
      return record.duration_us;
    case TextVariable::kUpstreamDuration:
    case TextVariable::kConnectDuration:
      return record.upstream_us;
    case TextVariable::kBytesIn:
      return record.request_bytes;
    case TextVariable::kBytesOut:
      return record.response_bytes;
    case TextVariable::kBytesPinned:
      return record.pinned_bytes;
    case TextVariable::kAttempts:
      return record.attempts;
    case TextVariable::kClientPort:
      return record.client_port != 0 ? std::optional<uint64_t>(record.client_port) : std::nullopt;
    case TextVariable::kGrpcStatus:
      return record.grpc_status;
    default:
      return std::nullopt;
  }
}

std::string_view text_of_record(const config::TextTemplate::Piece& piece, const AccessRecord& record,
                                std::array<char, ClientIp::kTextBytes>& room) {
  switch (piece.variable) {
    case TextVariable::kClientIp:
      return record.client;
    case TextVariable::kListener:
      return record.listener;
    case TextVariable::kProtocol:
      return record.protocol;
    case TextVariable::kTlsVersion:
      return record.tls;
    case TextVariable::kTlsCipher:
      return record.cipher;
    case TextVariable::kTlsServerName:
      return record.server_name;
    case TextVariable::kTarget:
      return record.path;
    case TextVariable::kReason:
      return record.reason;
    case TextVariable::kDetail:
      return record.detail;
    case TextVariable::kUser:
      return record.user;
    case TextVariable::kRoute:
      return record.route;
    case TextVariable::kUpstream:
      return record.upstream;
    case TextVariable::kEndpoint:
      return record.endpoint;
    default:
      return record.facts ? text_of(piece, *record.facts, room) : std::string_view();
  }
}

}  // namespace sluice
