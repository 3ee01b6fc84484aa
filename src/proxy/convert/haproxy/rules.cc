#include "proxy/convert/haproxy/rules.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proxy/common/suggestions.h"
#include "proxy/config/model/field_name.h"
#include "proxy/config/model/host_pattern.h"
#include "proxy/config/model/regex.h"
#include "proxy/config/model/text_template.h"
#include "proxy/convert/common/regex_text.h"
#include "proxy/convert/haproxy/format.h"
#include "proxy/convert/haproxy/keyword_table.h"

namespace sluice::convert::haproxy {
namespace {

using config::Node;

bool is_changeable(const std::string& name) {
  constexpr std::string_view kNot[] = {
      "connection",        "content-length",       "host", "http2-settings", "keep-alive",
      "proxy-connection",  "sec-websocket-accept", "te",   "trailer",        "upgrade",
      "transfer-encoding", "sec-websocket-key"};
  return config::FieldName::parse(name).ok() && std::find(std::begin(kNot), std::end(kNot), name) == std::end(kNot);
}

Node change_node(std::string_view name, std::string_view key, std::string_view text) {
  Node out = map_node();
  put(out, "name", name);
  put(out, key, text);
  return out;
}

// Actions that change nothing of what a client sees.
bool is_harmless(std::string_view action) {
  constexpr std::string_view kNames[] = {"capture",
                                         "set-log-level",
                                         "set-nice",
                                         "set-tos",
                                         "set-mark",
                                         "set-priority-class",
                                         "set-priority-offset",
                                         "normalize-uri",
                                         "wait-for-body",
                                         "disable-l7-retry",
                                         "early-hint",
                                         "set-var",
                                         "unset-var",
                                         "set-var-fmt",
                                         "cache-use",
                                         "cache-store"};
  return std::find(std::begin(kNames), std::end(kNames), action) != std::end(kNames) ||
         action.starts_with("set-var(") || action.starts_with("set-var-fmt(") || action.starts_with("unset-var(") ||
         action.starts_with("sc-") || action.starts_with("track-sc");
}

class RuleMapper {
 public:
  RuleMapper(const Proxy& proxy, const Surroundings& around, State& state)
      : proxy_(proxy), around_(around), state_(state) {}

  std::vector<Step> map() {
    for (const Line* const line : proxy_.lines) {
      // It may keep requests out.
      if (!is_known(*line) || line->keyword() == "filter") add_closed(*line);
    }
    for (const Line* const line : proxy_.all("tcp-request")) map_connection_rule(*line);
    for (const Line* const line : proxy_.all("http-response")) map_response(*line);
    for (const Line* const line : proxy_.all("http-after-response")) map_response(*line);
    for (const Line* const line : proxy_.all("http-request")) map_request(*line);
    for (const Line* const line : proxy_.all("redirect")) add_redirect(*line, 1);
    if (proxy_.is_frontend()) map_backends();
    return std::move(steps_);
  }

 private:
  Step* add(const Line& line, Step::Kind kind) {
    Condition when = parse_condition(line, condition_index(line), proxy_, around_);
    if (!when.unknown.empty()) {
      state_.refuse(line, absl::StrCat(config::in_quotes(when.unknown),
                                       " has no counterpart as a condition: requests that get here get 403"));
      add_closed(line);
      return nullptr;
    }
    steps_.push_back({.kind = kind, .when = std::move(when), .line = &line});
    return &steps_.back();
  }
  // No request gets further.
  void add_closed(const Line& line, int status = 403) {
    Step step{.kind = Step::Kind::kEnd, .out = respond_node(status), .line = &line};
    step.when.any.emplace_back();
    steps_.push_back(std::move(step));
  }

  void map_connection_rule(const Line& line) {
    const std::string_view phase = line.word(1), action = line.word(2);
    if (phase == "inspect-delay") return;
    if (is_harmless(action)) return state_.ignore(line, "nothing is counted or kept");
    if (action == "accept") {
      add(line, Step::Kind::kSkip);
    } else if (action == "reject" || action == "silent-drop") {
      if (Step* const step = add(line, Step::Kind::kEnd)) step->out = respond_node(403);
    } else {
      state_.refuse(line, "there is no counterpart: requests that get here get 403");
      add_closed(line);
    }
  }

  void map_request(const Line& line) {
    const std::string_view action = line.word(1);
    if (action == "deny" || action == "tarpit" || action == "reject" || action == "silent-drop")
      return add_denial(line);
    if (action == "allow") return add_allowed(line);
    if (action == "redirect") return add_redirect(line, 2);
    if (action == "return") return add_return(line);
    if (action == "set-header" || action == "add-header" || action == "del-header") return add_request_header(line);
    if (action == "set-path" || action == "replace-path") return add_path(line);
    if (is_harmless(action)) return state_.ignore(line, "there is no counterpart; rules that look at it are refused");
    state_.refuse(line, "there is no counterpart: requests that get here get 403");
    add_closed(line);
  }

  void add_allowed(const Line& line) {
    // What it would leave out may be rules that change requests, too.
    state_.refuse(line, "rules behind it cannot be left out: requests that get here get 403");
    add_closed(line);
  }

  void add_denial(const Line& line) {
    std::string_view status = line.after("deny_status");
    if (status.empty()) status = line.after("status");
    uint32_t number = line.word(1) == "tarpit" ? 500 : 403;
    if (!status.empty() && (!absl::SimpleAtoi(status, &number) || number < 400 || number > 599)) number = 403;
    if (line.word(1) == "tarpit") state_.ignore(line, "the response is not delayed");
    Step* const step = add(line, Step::Kind::kEnd);
    if (step == nullptr) return;
    const std::string_view text = line.after("string");
    step->out = respond_node(static_cast<int>(number), text);
    if (!text.empty())
      put(map_at(step->out, "respond"), "content_type",
          line.after("content-type").empty() ? "text/plain" : line.after("content-type"));
  }

  void add_return(const Line& line) {
    uint32_t status = 200;
    if (const std::string_view text = line.after("status");
        !text.empty() && (!absl::SimpleAtoi(text, &status) || status < 200 || status > 599))
      status = 500;
    std::string_view body = line.after("string");
    if (body.empty() && is_fixed(line.after("lf-string"))) body = line.after("lf-string");
    const bool known = !line.has("file") && !line.has("lf-file") && !line.has("errorfile") && !line.has("errorfiles") &&
                       !line.has("default-errorfiles") && (!line.has("lf-string") || !body.empty());
    if (!known) state_.refuse(line, "the body of a response is a fixed text: its requests get 503");
    Step* const step = add(line, Step::Kind::kEnd);
    if (step == nullptr) return;
    const bool bodiless = status == 204 || status == 205 || status == 304;
    step->out = known ? respond_node(static_cast<int>(status), bodiless ? "" : body) : respond_node(503);
    if (!known) return;
    if (!body.empty() && !bodiless)
      put(map_at(step->out, "respond"), "content_type",
          line.after("content-type").empty() ? "text/plain" : line.after("content-type"));
    Node fields = list_node();
    for (size_t i = 0; i + 2 < line.words.size(); ++i) {
      if (line.words[i] != "hdr") continue;
      const TranslatedText text = translate_format(line.words[i + 2]);
      if (text.unknown.empty() && is_changeable(absl::AsciiStrToLower(line.words[i + 1]))) {
        fields.items.push_back(change_node(line.words[i + 1], "set", text.text));
      } else {
        state_.refuse(line, absl::StrCat("the field ", config::in_quotes(line.words[i + 1]), " cannot be said"));
      }
    }
    if (!fields.items.empty()) put(step->out, "response_headers", std::move(fields));
  }

  // `redirect scheme https code 301 if ...`, from the word at `from` on.
  void add_redirect(const Line& line, size_t from) {
    const std::string_view kind = line.word(from), target = line.word(from + 1), code = line.after("code");
    Node redirect = map_node();
    if (code != "301") put(redirect, "status", code.empty() ? "302" : code);
    bool known = code.empty() || code == "301" || code == "302" || code == "303" || code == "307" || code == "308";
    if (kind == "scheme") {
      put(redirect, "scheme", target);
      known = known && (target == "https" || target == "http");
    } else {
      known = known && (kind == "location" || kind == "prefix") && put_redirect(target, kind == "prefix", redirect);
    }
    if (line.has("drop-query")) put(redirect, "drop_query", "true");
    if (line.has("append-slash") || line.has("set-cookie") || line.has("clear-cookie")) known = false;
    if (!known) state_.refuse(line, "this redirect cannot be said: its requests get 503");
    Step* const step = add(line, Step::Kind::kEnd);
    if (step == nullptr) return;
    if (known) {
      put(step->out, "redirect", std::move(redirect));
    } else {
      step->out = respond_node(503);
    }
  }

  // The field is left out, and what a client sends in it does not pass for it.
  void refuse_field(const Line& line, std::string_view why, Node& changes, const std::string& name) {
    state_.refuse(line, absl::StrCat(why, ": it is not sent"));
    if (is_changeable(absl::AsciiStrToLower(name))) changes.items.push_back(change_node(name, "remove", "true"));
  }

  void add_change(const Line& line, const std::string& action, const std::string& name, std::string_view value,
                  Node& changes) {
    if (action == "del-header") {
      if (line.has("-m")) return refuse_field(line, "fields are removed by their name", changes, name);
      changes.items.push_back(change_node(name, "remove", "true"));
      return;
    }
    const TranslatedText text = translate_format(value);
    if (!text.unknown.empty() || !config::TextTemplate::parse(text.text).ok()) {
      return refuse_field(line, absl::StrCat("there is no counterpart of ", config::in_quotes(text.unknown)), changes,
                          name);
    }
    if (text.text.empty()) return changes.items.push_back(change_node(name, "remove", "true"));
    changes.items.push_back(change_node(name, action == "set-header" ? "set" : "add", text.text));
  }

  // What Sluice sends by itself.
  bool is_sent_anyway(const Line& line, const std::string& lower) const {
    const std::string_view own = around_.has_tls ? "https" : "http";
    return lower == "x-forwarded-proto" && line.word(1) == "set-header" &&
           (line.word(3) == own || line.word(3) == "%[ssl_fc,iif(https,http)]");
  }

  void add_request_header(const Line& line) {
    const std::string name(line.word(2)), lower = absl::AsciiStrToLower(name);
    Changes changes;
    if (is_sent_anyway(line, lower)) return;
    if (lower == "host") {
      const std::string_view value = line.word(3);
      const bool known =
          line.word(1) == "set-header" && !value.starts_with('*') && config::HostPattern::parse(value).ok();
      if (value == "%[req.hdr(host)]" || value == "%[hdr(host)]") return;
      if (!known) return state_.refuse(line, "Host can be a fixed name: it is that of the client");
      put(changes.rewrite, "host", value);
    } else if (!is_changeable(lower)) {
      return state_.ignore(line, "Sluice writes this field by itself");
    } else {
      add_change(line, std::string(line.word(1)), name, line.word(3), changes.request_headers);
    }
    Condition when = parse_condition(line, condition_index(line), proxy_, around_);
    if (!when.unknown.empty()) {
      state_.refuse(line, absl::StrCat(config::in_quotes(when.unknown),
                                       " has no counterpart as a condition: upstreams do not get the field"));
      changes = {};
      if (is_changeable(lower)) changes.request_headers.items.push_back(change_node(name, "remove", "true"));
      when = {};
      when.any.emplace_back();
    }
    steps_.push_back(
        {.kind = Step::Kind::kChange, .when = std::move(when), .changes = std::move(changes), .line = &line});
  }

  void add_path(const Line& line) {
    Changes changes;
    bool known = false;
    if (line.word(1) == "set-path") {
      known = put_path(line.word(2), changes.rewrite);
    } else {
      const std::optional<std::string> whole = whole_regex_of(line.word(2), false);
      const std::string substitution(line.word(3));
      if (whole) {
        known = config::Regex::parse(*whole)->accepts(substitution).ok() && substitution.starts_with('/') &&
                is_fixed(substitution) && !absl::StrContains(substitution, '?');
        put(changes.rewrite, "regex", *whole);
        put(changes.rewrite, "substitution", substitution);
      }
    }
    if (!known) state_.refuse(line, "this change of a path cannot be said: its requests get 503");
    Step* const step = add(line, known ? Step::Kind::kChange : Step::Kind::kEnd);
    if (step == nullptr) return;
    if (known) step->changes = std::move(changes);
    if (!known) step->out = respond_node(503);
  }

  void map_response(const Line& line) {
    const std::string_view action = line.word(1);
    if (action == "set-header" || action == "add-header" || action == "del-header") {
      const std::string name(line.word(2));
      if (condition_index(line) != line.words.size())
        return state_.refuse(line, "fields of responses are changed without a condition: it is left out");
      if (!is_changeable(absl::AsciiStrToLower(name))) return state_.ignore(line, "Sluice writes this field by itself");
      Step step{.kind = Step::Kind::kChange, .line = &line};
      step.when.any.emplace_back();
      Node& changes = line.keyword() == "http-response" ? step.changes.response_headers : step.changes.every_response;
      add_change(line, std::string(action), name, line.word(3), changes);
      steps_.push_back(std::move(step));
    } else if (is_harmless(action)) {
      state_.ignore(line, "there is no counterpart");
    } else if (action == "deny" || action == "return" || action == "redirect") {
      state_.refuse(line, "responses of upstreams are not replaced: requests that get here get 403");
      add_closed(line);
    } else {
      state_.refuse(line, "there is no counterpart");
    }
  }

  void map_backends() {
    for (const Line* const line : proxy_.all("use_backend")) {
      Step* const step = add(*line, Step::Kind::kBackend);
      if (step == nullptr) return;
      step->backend = line->word(1);
      if (is_fixed(step->backend)) continue;
      state_.refuse(*line, "expected a fixed name: its requests get 503");
      step->kind = Step::Kind::kEnd;
      step->out = respond_node(503);
    }
    if (const Line* const line = proxy_.last("default_backend")) {
      Step step{.kind = Step::Kind::kBackend, .backend = std::string(line->word(1)), .line = line};
      step.when.any.emplace_back();
      steps_.push_back(std::move(step));
    }
  }

  const Proxy& proxy_;
  const Surroundings& around_;
  State& state_;
  std::vector<Step> steps_;
};

}  // namespace

std::vector<Step> steps_of(const Proxy& proxy, const Surroundings& around, State& state) {
  return RuleMapper(proxy, around, state).map();
}

}  // namespace sluice::convert::haproxy
