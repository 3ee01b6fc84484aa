#include "proxy/router/text_variables.h"

namespace sluice {

using config::TextVariable;

std::string_view text_of(const config::TextTemplate::Piece& piece, const RequestAttributes& facts,
                         std::array<char, ClientIp::kTextBytes>& room) {
  switch (piece.variable) {
    case TextVariable::kNone:
      return piece.text;
    case TextVariable::kClientIp:
      return facts.client ? facts.client->text(room) : std::string_view();
    case TextVariable::kHost:
      return facts.host;
    case TextVariable::kAuthority:
      return facts.authority;
    case TextVariable::kMethod:
      return facts.method;
    case TextVariable::kPath:
      return facts.path;
    case TextVariable::kQuery:
      return facts.query;
    case TextVariable::kScheme:
      return facts.scheme;
    case TextVariable::kProtocol:
      return facts.http2 ? "HTTP/2" : "HTTP/1.1";
    case TextVariable::kListener:
      return facts.listener;
    case TextVariable::kPeer:
      return facts.peer();
    case TextVariable::kTlsVersion:
      return facts.agreed ? facts.agreed->version : std::string_view();
    case TextVariable::kTlsServerName:
      return facts.agreed ? std::string_view(facts.agreed->server_name) : std::string_view();
    case TextVariable::kRequestId:
      return facts.request_id;
    case TextVariable::kTraceId:
      return facts.trace_id;
    case TextVariable::kHeader:
      return facts.fields ? facts.fields->value(piece.text) : std::string_view();
    default:
      return {};
  }
}

}  // namespace sluice
