#include "proxy/convert/nginx/headers.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "proxy/common/suggestions.h"
#include "proxy/config/model/address.h"
#include "proxy/config/model/field_name.h"
#include "proxy/config/model/host_pattern.h"
#include "proxy/config/model/text_template.h"

namespace sluice::convert::nginx {
namespace {

using config::Node;

bool is_host(std::string_view authority) {
  if (authority.starts_with('['))
    return config::Address::parse(absl::StrCat(authority, authority.ends_with(']') ? ":1" : "")).ok();
  const size_t colon = authority.rfind(':');
  return !authority.starts_with('*') && config::HostPattern::parse(authority.substr(0, colon)).ok();
}

// Fields that belong to a connection, or that give the length of a message.
bool is_of_connection(std::string_view name) {
  constexpr std::string_view kNames[] = {
      "connection",       "content-length",      "expect", "http2-settings", "keep-alive",
      "proxy-connection", "sec-websocket-key",   "te",     "trailer",        "transfer-encoding",
      "upgrade",          "sec-websocket-accept"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

Node change(std::string_view name, std::string_view key, std::string_view text) {
  Node out = map_node();
  put(out, "name", name);
  put(out, key, text);
  return out;
}

class RequestHeaders {
 public:
  RequestHeaders(const PassTarget& target, const Access& access, ServerContext& server, Node& route)
      : access_(access), server_(server), route_(route), fixed_(server.fixed) {
    fixed_.proxy_host = target.server.starts_with("unix:") ? "localhost" : target.server;
  }

  void map(const Directive& directive) {
    const std::string name = absl::AsciiStrToLower(directive.arg(0));
    const std::string_view value = directive.arg(1);
    if (name == "host") {
      host_ = &directive;
    } else if (is_of_connection(name)) {
      map_connection(directive, name, value);
    } else if (!is_done_anyway(name, value)) {
      map_field(directive, name, value);
    }
  }

  // Without a directive nginx sends the name in `proxy_pass`.
  void put_host() {
    std::string text = "%{authority}";
    if (host_ == nullptr) {
      text = fixed_.proxy_host;
    } else if (const std::string_view value = host_->arg(1); value == "$host:$server_port") {
      return;
    } else {
      const TranslatedText translated = translate_text(value, fixed_);
      text = translated.unknown.empty() ? translated.text : "";
    }
    if (text == "%{authority}" || text == "%{host}" || text == "%{header:host}") return;
    if (is_host(text)) {
      put(map_at(route_, "rewrite"), "host", text);
    } else if (host_ != nullptr) {
      server_.state.refuse(*host_, "Host can be that of the client, or a fixed name: it is that of the client");
    }
  }

  void finish() {
    if (!changes_.items.empty()) put(route_, "request_headers", std::move(changes_));
  }
  bool is_for_upgrades() const { return upgrades_; }

 private:
  // What Sluice does by itself.
  static bool is_done_anyway(std::string_view name, std::string_view value) {
    return (name == "x-forwarded-for" && value == "$proxy_add_x_forwarded_for") ||
           (name == "x-forwarded-proto" && value == "$scheme");
  }

  void map_connection(const Directive& directive, std::string_view name, std::string_view value) {
    const bool variable = server_.state.upgrade_variables.contains(absl::StripPrefix(value, "$"));
    if (name == "upgrade" && value == "$http_upgrade") {
      upgrades_ = true;
    } else if (name == "connection" && (value.empty() || variable || absl::EqualsIgnoreCase(value, "upgrade") ||
                                        value == "$http_connection" || absl::EqualsIgnoreCase(value, "keep-alive"))) {
      return;  // Websockets pass, and connections are kept.
    } else {
      server_.state.ignore(directive, "Sluice writes this field by itself");
    }
  }

  void map_field(const Directive& directive, const std::string& name, std::string_view value) {
    if (!config::FieldName::parse(name).ok()) {
      return server_.state.refuse(directive, absl::StrCat(config::in_quotes(name), " is no name of a field"));
    }
    const auto authorized = access_.authorized_fields.find(absl::StripPrefix(value, "$"));
    if (value.starts_with('$') && authorized != access_.authorized_fields.end() && authorized->second == name) return;
    const TranslatedText text = value == "$proxy_add_x_forwarded_for"
                                    ? TranslatedText{.text = "", .unknown = std::string(value)}
                                    : translate_text(value, fixed_);
    if (!text.unknown.empty() || !config::TextTemplate::parse(text.text).ok()) {
      server_.state.refuse(directive, absl::StrCat("there is no counterpart of ",
                                                   config::in_quotes(text.unknown.empty() ? value : text.unknown),
                                                   ": upstreams do not get the field"));
      changes_.items.push_back(change(directive.arg(0), "remove", "true"));  // A client's own must not pass for it.
    } else if (text.text.empty()) {
      changes_.items.push_back(change(directive.arg(0), "remove", "true"));
    } else if (!is_request_id(name, text.text)) {
      changes_.items.push_back(change(directive.arg(0), "set", text.text));
    }
  }

  // Ids are made only if the listener has a field for them.
  bool is_request_id(const std::string& name, const std::string& text) {
    if (!absl::StrContains(text, "%{request_id}")) return false;
    if (server_.http.find("request_id") == nullptr)
      put(server_.http, "request_id", text == "%{request_id}" ? name : "x-request-id");
    return text == "%{request_id}" && server_.http.find("request_id")->text == name;
  }

  const Access& access_;
  ServerContext& server_;
  Node& route_;
  FixedVariables fixed_;
  const Directive* host_ = nullptr;
  Node changes_ = list_node();
  bool upgrades_ = false;
};

}  // namespace

bool put_request_headers(const Scope& scope, Spoken spoken, const PassTarget& target, const Access& access,
                         ServerContext& server, Node& route) {
  RequestHeaders headers(target, access, server, route);
  for (const Directive* const each : scope.all(spoken == Spoken::kGrpc ? "grpc_set_header" : "proxy_set_header")) {
    headers.map(*each);
  }
  headers.put_host();
  headers.finish();
  return headers.is_for_upgrades();
}

void put_response_headers(const Scope& scope, Spoken spoken, ServerContext& server, Node& route) {
  Node changes = list_node();
  for (const Directive* const each : scope.all(spoken == Spoken::kGrpc ? "grpc_hide_header" : "proxy_hide_header")) {
    if (config::FieldName::parse(each->arg(0)).ok()) changes.items.push_back(change(each->arg(0), "remove", "true"));
  }
  for (const Directive* const each : scope.all("add_header")) {
    const TranslatedText text = translate_text(each->arg(1), server.fixed);
    if (!text.unknown.empty() || !config::TextTemplate::parse(text.text).ok()) {
      server.state.refuse(*each, absl::StrCat("there is no counterpart of ", config::in_quotes(text.unknown),
                                              ": responses do not have the field"));
    } else if (!config::FieldName::parse(each->arg(0)).ok() || is_of_connection(absl::AsciiStrToLower(each->arg(0)))) {
      server.state.refuse(*each, "this field cannot be added");
    } else if (!text.text.empty()) {
      changes.items.push_back(change(each->arg(0), "add", text.text));
    }
  }
  if (!changes.items.empty()) put(route, "response_headers", std::move(changes));
}

}  // namespace sluice::convert::nginx
