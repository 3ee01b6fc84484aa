#include "proxy/convert/haproxy/mapping.h"

#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "proxy/config/model/privileges.h"
#include "proxy/convert/haproxy/frontends.h"
#include "proxy/convert/haproxy/keyword_table.h"
#include "proxy/convert/haproxy/state.h"

namespace sluice::convert::haproxy {
namespace {

using config::Node;

void put_global(const Section& global, State& state, Node& root) {
  std::string user, group;
  for (const Line& line : global.lines) {
    if (line.keyword() == "nbthread") put_count(root, "workers", line, line.word(1), 1, 1024, state);
    if (line.keyword() == "maxconn")
      put_count(put(root, "limits", map_node()), "max_connections", line, line.word(1), 1, UINT32_MAX, state);
    if (line.keyword() == "user") user = line.word(1);
    if (line.keyword() == "group") group = line.word(1);
    if (line.keyword() == "ssl-default-bind-options" && line.after("ssl-min-ver") == "TLSv1.3") {
      state.ignore(line, "see `min_version`: clients may use TLS 1.2, too");
    }
  }
  const std::string text = absl::StrCat(user, user.empty() || group.empty() ? "" : ":", user.empty() ? "" : group);
  if (!user.empty() && config::ProcessUser::parse(text).ok()) put(root, "user", text);
}

// The proxies, each with the lines of its defaults.
void read_proxies(const std::vector<Section>& sections, State& state) {
  const Section* defaults = nullptr;
  for (const Section& section : sections) {
    if (section.kind == "defaults") defaults = &section;
    if (section.kind == "global") state.global = &section;
    if (section.kind == "resolvers") state.resolvers[section.name] = &section;
    if (section.kind != "frontend" && section.kind != "backend" && section.kind != "listen") continue;
    const Section* own = defaults;
    for (const Section& each : sections) {
      if (!section.from.empty() && each.kind == "defaults" && each.name == section.from) own = &each;
    }
    Proxy proxy{.section = &section, .lines = {}};
    if (own != nullptr) {
      for (const Line& line : own->lines) proxy.lines.push_back(&line);
    }
    for (const Line& line : section.lines) proxy.lines.push_back(&line);
    state.proxies.push_back(std::move(proxy));
  }
}

void report_section(const Section& section, State& state) {
  constexpr std::string_view kRead[] = {"global", "defaults", "frontend", "backend", "listen"};
  for (const std::string_view kind : kRead) {
    if (section.kind == kind) return report_unmapped(section, state.findings);
  }
  if (section.kind == "resolvers") return;
  const bool harmless = section.kind == "peers" || section.kind == "mailers" || section.kind == "cache" ||
                        section.kind == "ring" || section.kind == "traces" || section.kind == "program";
  state.findings.add({.kind = section.kind,
                      .name = section.name,
                      .path = "",
                      .message = "there is no counterpart; what refers to it is refused",
                      .severity = harmless ? Severity::kIgnored : Severity::kRefused,
                      .mark = section.mark});
}

}  // namespace

Conversion map_file(const std::string& path, const Disk& disk) {
  Conversion made;
  const absl::StatusOr<std::string> text = disk.read(path);
  if (!text.ok()) {
    made.error = text.status().message();
    return made;
  }
  made.files = {path};
  const ParsedFile parsed = parse_text(*text, path);
  made.error = parsed.error;
  if (!made.error.empty()) return made;
  State state{.findings = made.findings, .disk = disk};
  read_proxies(parsed.sections, state);
  Node root = map_node();
  if (state.global != nullptr) put_global(*state.global, state, root);
  bool has_frontend = false;
  for (const Section& section : parsed.sections) report_section(section, state);
  for (const Proxy& proxy : state.proxies) {
    has_frontend = has_frontend || proxy.is_frontend();
    if (proxy.is_frontend() && proxy.last("disabled") == nullptr) map_frontend(proxy, state);
  }
  if (!has_frontend) {
    made.error = absl::StrCat(path, ": expected a section `frontend` or `listen`");
    return made;
  }
  put(root, "listeners", state.listeners);
  if (!state.made_upstreams.list().items.empty()) put(root, "upstreams", state.made_upstreams.list());
  made.findings.sort();
  made.text = write_yaml(root);
  return made;
}

}  // namespace sluice::convert::haproxy
