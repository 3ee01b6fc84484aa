#include "proxy/convert/nginx/mapping.h"

#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proxy/common/suggestions.h"
#include "proxy/config/model/privileges.h"
#include "proxy/convert/nginx/servers.h"
#include "proxy/convert/nginx/state.h"
#include "proxy/convert/nginx/stream.h"

namespace sluice::convert::nginx {
namespace {

using config::Node;

void put_process(const Directive& main, State& state, Node& root) {
  const Scope scope{&main};
  if (const Directive* const workers = scope.find("worker_processes")) {
    uint32_t count = 0;
    const bool known =
        workers->arg(0) == "auto" || (absl::SimpleAtoi(workers->arg(0), &count) && count >= 1 && count <= 1024);
    if (known) put(root, "workers", workers->arg(0));
    if (!known) state.refuse(*workers, "expected auto, or a number from 1 to 1024");
  }
  if (const Directive* const user = scope.find("user")) {
    const std::string text = absl::StrCat(user->arg(0), user->args.size() > 1 ? ":" : "", user->arg(1));
    if (config::ProcessUser::parse(text).ok())
      put(root, "user", text);
    else
      state.refuse(*user, absl::StrCat(config::in_quotes(text), " is no user"));
  }
  put_time(root, "shutdown_timeout", scope.find("worker_shutdown_timeout"), state);
}

}  // namespace

Conversion map_file(const std::string& path, const Disk& disk) {
  Conversion made;
  ParsedFiles parsed = parse_files(path, disk);
  made.files = std::move(parsed.files);
  made.error = std::move(parsed.error);
  if (!made.error.empty()) return made;
  if (parsed.root.all("http").empty() && parsed.root.all("stream").empty()) {
    made.error = absl::StrCat(path, ": expected a block `http` or `stream`: is this the main file, nginx.conf?");
    return made;
  }
  State state{.findings = made.findings, .main_file = path, .main = parsed.root};
  Node root = map_node();
  put_process(parsed.root, state, root);
  report_unmapped(parsed.root, made.findings);
  for (const Directive* const http : parsed.root.all("http")) map_http(*http, state);
  for (const Directive* const stream : parsed.root.all("stream")) map_stream(*stream, state);
  if (!state.limits.list().items.empty()) put(root, "rate_limits", state.limits.list());
  put(root, "listeners", state.listeners);
  if (!state.upstreams.list().items.empty()) put(root, "upstreams", state.upstreams.list());
  made.findings.sort();
  made.text = write_yaml(root);
  return made;
}

}  // namespace sluice::convert::nginx
