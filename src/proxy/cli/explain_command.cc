#include "proxy/cli/explain_command.h"

#include <cstdio>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "proxy/cli/arguments.h"
#include "proxy/cli/explain.h"
#include "proxy/cli/failure.h"
#include "proxy/cli/running_config.h"
#include "proxy/common/suggestions.h"
#include "proxy/config/load/loader.h"

namespace sluice {
namespace {

absl::StatusOr<ExplainedRequest> request_of(const Arguments& arguments) {
  ExplainedRequest request;
  const std::vector<std::string_view>& words = arguments.words();
  if (words.empty()) return absl::InvalidArgumentError("explain takes a method, or none, and a URL");
  request.url = words.back();
  if (words.size() == 2) request.method = words.front();
  if (const auto from = arguments.value("--from")) request.from = *from;
  if (const auto listener = arguments.value("--listener")) request.listener = *listener;
  for (const std::string_view peer : arguments.values("--peer")) request.peer.emplace_back(peer);
  for (const std::string_view field : arguments.values("-H")) {
    const size_t colon = field.find(':');
    if (colon == std::string_view::npos) {
      return absl::InvalidArgumentError(absl::StrCat("-H takes `NAME: VALUE`, got ", config::in_quotes(field)));
    }
    request.fields.emplace_back(field.substr(0, colon), absl::StripAsciiWhitespace(field.substr(colon + 1)));
  }
  return request;
}

}  // namespace

int explain_command(const Arguments& arguments) {
  if (arguments.has("--config") == arguments.has("--against")) {
    return fail_usage("explain", "explain needs either --config FILE or --against ADDRESS");
  }
  const absl::StatusOr<ExplainedRequest> request = request_of(arguments);
  if (!request.ok()) return fail_usage("explain", request.status().message());
  const absl::StatusOr<config::Config> config = arguments.has("--against")
                                                    ? running_config(arguments)
                                                    : config::load_file(std::string(*arguments.value("--config")));
  if (!config.ok()) return fail(1, config.status().message());
  const absl::StatusOr<std::string> text = explain(*config, *request);
  if (!text.ok()) return fail(1, text.status().message());
  std::fputs(text->c_str(), stdout);
  return 0;
}

}  // namespace sluice
