#include "proxy/cli/convert_command.h"

#include <cstdio>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "proxy/cli/failure.h"
#include "proxy/common/read_file.h"
#include "proxy/config/load/diagnostics.h"
#include "proxy/config/load/loader.h"
#include "proxy/config/load/yaml.h"
#include "proxy/convert/common/conversion.h"
#include "proxy/convert/common/disk.h"
#include "proxy/convert/haproxy/mapping.h"
#include "proxy/convert/nginx/mapping.h"
#include "proxy/envoy/mapping.h"

namespace sluice {
namespace {

// Envoy's messages are nested deeper than Sluice's configuration.
constexpr size_t kMaxEnvoyDepth = 64;

// The trees of all files.
struct EnvoyFiles {
  explicit EnvoyFiles(std::string_view first) : report(first) {}

  config::Report report;
  std::deque<config::Node> documents;  // Others refer to them.
};

int print_error(std::string_view text) {
  std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
  return 1;
}

// Reads the trees of all files. Returns false with an error in `made`.
bool read_envoy_files(const std::vector<std::string_view>& words, EnvoyFiles& files, convert::Conversion& made) {
  config::YamlBudget budget{.bytes = size_t{64} << 20, .depth = kMaxEnvoyDepth, .has_variables = false};
  for (const std::string_view word : words) {
    const std::string name(word);
    const uint32_t number = made.files.empty() ? 0 : files.report.add_file(name);
    made.files.push_back(name);
    const absl::StatusOr<std::string> text = read_file(name);
    if (!text.ok()) {
      made.error = absl::StrCat("sluice: ", text.status().message());
      return false;
    }
    if (!config::parse_yaml(*text, number, budget, files.documents.emplace_back(), files.report)) break;
  }
  if (!files.report.ok()) made.error = files.report.status().message();
  return files.report.ok();
}

convert::Conversion convert_envoy(const std::vector<std::string_view>& words) {
  convert::Conversion made;
  EnvoyFiles files(words.front());
  if (!read_envoy_files(words, files, made)) return made;
  envoy::ResourceSet resources;
  bool known = true;
  for (const config::Node& document : files.documents) known = resources.add_document(document, made.findings) && known;
  if (known) made.text = envoy::map_resources(resources, made.findings);
  made.is_known = known;
  return made;
}

void print_finding(const convert::Finding& finding, const std::vector<std::string>& files) {
  std::string place = finding.mark.file < files.size() ? files[finding.mark.file] : std::string();
  if (finding.mark.line > 0) absl::StrAppend(&place, ":", finding.mark.line, ":", finding.mark.column);
  print_error(absl::StrCat(place, place.empty() ? "" : ": ", finding.text()));
}

void print_findings(const convert::Conversion& made) {
  for (const convert::Finding& finding : made.findings.list()) print_finding(finding, made.files);
  if (made.findings.left_out() > 0) print_error(absl::StrCat("and ", made.findings.left_out(), " more"));
}

convert::Conversion conversion_of(std::string_view from, const std::vector<std::string_view>& words) {
  if (from == "envoy") return convert_envoy(words);
  const std::string path(words.front());
  return from == "nginx" ? convert::nginx::map_file(path, convert::real_disk())
                         : convert::haproxy::map_file(path, convert::real_disk());
}

int write_result(const std::string& text, std::string_view path) {
  if (path.empty()) {
    std::fputs(text.c_str(), stdout);
    return std::fflush(stdout) == 0 ? 0 : fail(1, "the configuration cannot be written to standard output");
  }
  const std::string name(path);
  std::FILE* const file = std::fopen(name.c_str(), "we");
  if (file == nullptr) return fail(1, absl::StrCat(name, ": cannot be written"));
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  return std::fclose(file) == 0 && written ? 0 : fail(1, absl::StrCat(name, ": cannot be written"));
}

}  // namespace

int convert_command(const Arguments& arguments) {
  const std::string_view from = arguments.value("--from").value_or("");
  if (from.empty()) return fail_usage("convert", "convert needs --from envoy, nginx or haproxy");
  if (arguments.words().empty()) return fail_usage("convert", "convert needs a FILE");
  if (from != "envoy" && arguments.words().size() > 1) {
    return fail_usage("convert", "convert takes several FILEs with --from envoy only");
  }
  const convert::Conversion made = conversion_of(from, arguments.words());
  if (!made.error.empty()) return print_error(made.error);
  print_findings(made);
  if (!made.is_known) return 1;
  const size_t refused = made.findings.count(convert::Severity::kRefused);
  if (refused > 0 && arguments.has("--strict")) {
    return fail(1, absl::StrCat("nothing is printed, because of --strict: ", refused, " refused"));
  }
  const absl::StatusOr<config::Config> checked = config::load_text(made.text, "result");
  if (!checked.ok()) print_error(checked.status().message());
  const int failed = write_result(made.text, arguments.value("--output").value_or(""));
  if (failed != 0 || !checked.ok()) return 1;
  return refused > 0 ? 3 : 0;
}

}  // namespace sluice
