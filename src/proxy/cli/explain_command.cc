#include "proxy/cli/explain_command.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "proxy/cli/explain.h"
#include "proxy/common/suggestions.h"
#include "proxy/config/load/loader.h"

namespace sluice {
namespace {

constexpr std::string_view kOptions[] = {"--config", "--from", "--peer", "--listener", "-H"};

struct Call {
  std::string config;
  ExplainedRequest request;
};

absl::Status set_option(std::string_view name, std::string_view value, Call& call) {
  ExplainedRequest& request = call.request;
  if (name == "--config") {
    call.config = value;
  } else if (name == "--from") {
    request.from = value;
  } else if (name == "--peer") {
    request.peer.emplace_back(value);
  } else if (name == "--listener") {
    request.listener = value;
  } else {
    const size_t colon = value.find(':');
    if (colon == std::string_view::npos) {
      return absl::InvalidArgumentError(absl::StrCat("-H takes `NAME: VALUE`, got ", config::in_quotes(value)));
    }
    request.fields.emplace_back(value.substr(0, colon), absl::StripAsciiWhitespace(value.substr(colon + 1)));
  }
  return absl::OkStatus();
}

absl::StatusOr<Call> parse(std::span<const std::string_view> arguments) {
  Call call;
  std::vector<std::string_view> words;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].starts_with('-')) {
      words.push_back(arguments[i]);
      continue;
    }
    const size_t equals = arguments[i].starts_with("--") ? arguments[i].find('=') : std::string_view::npos;
    const std::string_view name = arguments[i].substr(0, equals);
    if (std::find(std::begin(kOptions), std::end(kOptions), name) == std::end(kOptions)) {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown option ", config::in_quotes(name), config::did_you_mean(name, kOptions)));
    }
    if (equals == std::string_view::npos && ++i == arguments.size()) {
      return absl::InvalidArgumentError(absl::StrCat(name, " needs a value"));
    }
    const std::string_view value = equals == std::string_view::npos ? arguments[i] : arguments[i].substr(equals + 1);
    const absl::Status set = set_option(name, value, call);
    if (!set.ok()) return set;
  }
  if (call.config.empty()) return absl::InvalidArgumentError("explain needs --config FILE");
  if (words.empty() || words.size() > 2)
    return absl::InvalidArgumentError("explain takes a method, or none, and a URL");
  call.request.url = words.back();
  if (words.size() == 2) call.request.method = words.front();
  return call;
}

int fail(int code, std::string_view message) {
  std::fprintf(stderr, "sluice: %.*s\n", static_cast<int>(message.size()), message.data());
  return code;
}

}  // namespace

int explain_command(std::span<const std::string_view> arguments) {
  const absl::StatusOr<Call> call = parse(arguments);
  if (!call.ok()) return fail(2, absl::StrCat(call.status().message(), "\nsee `sluice help`"));
  const absl::StatusOr<config::Config> config = config::load_file(call->config);
  if (!config.ok()) return fail(1, config.status().message());
  const absl::StatusOr<std::string> text = explain(*config, call->request);
  if (!text.ok()) return fail(1, text.status().message());
  std::fputs(text->c_str(), stdout);
  return 0;
}

}  // namespace sluice
