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
#include "proxy/envoy/mapping.h"

namespace sluice {
namespace {

// Envoy's messages are nested deeper than Sluice's configuration.
constexpr size_t kMaxEnvoyDepth = 64;

// The trees of all files, and where they are from.
struct EnvoyFiles {
  explicit EnvoyFiles(std::string_view first) : report(first) {}

  config::Report report;
  std::vector<std::string> names;
  std::deque<config::Node> documents;  // Others refer to them.
};

int print_error(std::string_view text) {
  std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
  return 1;
}

// Returns 0, or the exit code after an error.
int read_envoy_files(const std::vector<std::string_view>& words, EnvoyFiles& files) {
  config::YamlBudget budget{.bytes = size_t{64} << 20, .depth = kMaxEnvoyDepth, .has_variables = false};
  for (const std::string_view word : words) {
    const std::string name(word);
    const uint32_t number = files.names.empty() ? 0 : files.report.add_file(name);
    files.names.push_back(name);
    const absl::StatusOr<std::string> text = read_file(name);
    if (!text.ok()) return fail(1, text.status().message());
    if (!config::parse_yaml(*text, number, budget, files.documents.emplace_back(), files.report)) break;
  }
  return files.report.ok() ? 0 : print_error(files.report.status().message());
}

void print_finding(const envoy::Finding& finding, const EnvoyFiles& files) {
  std::string place = finding.mark.file < files.names.size() ? files.names[finding.mark.file] : std::string();
  if (finding.mark.line > 0) absl::StrAppend(&place, ":", finding.mark.line, ":", finding.mark.column);
  print_error(absl::StrCat(place, place.empty() ? "" : ": ", finding.text()));
}

void print_findings(const envoy::Findings& findings, const EnvoyFiles& files) {
  for (const envoy::Finding& finding : findings.list()) print_finding(finding, files);
  if (findings.left_out() > 0) print_error(absl::StrCat("and ", findings.left_out(), " more"));
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
  if (!arguments.has("--from")) return fail_usage("convert", "convert needs --from envoy");
  if (arguments.words().empty()) return fail_usage("convert", "convert needs a FILE");
  EnvoyFiles files(arguments.words().front());
  if (const int failed = read_envoy_files(arguments.words(), files); failed != 0) return failed;
  envoy::Findings findings;
  envoy::ResourceSet resources;
  bool known = true;
  for (const config::Node& document : files.documents) known = resources.add_document(document, findings) && known;
  const std::string text = known ? envoy::map_resources(resources, findings) : std::string();
  print_findings(findings, files);
  if (!known) return 1;
  const size_t refused = findings.count(envoy::Severity::kRefused);
  if (refused > 0 && arguments.has("--strict")) {
    return fail(1, absl::StrCat("nothing is printed, because of --strict: ", refused, " refused"));
  }
  const absl::StatusOr<config::Config> checked = config::load_text(text, "result");
  if (!checked.ok()) print_error(checked.status().message());
  const int failed = write_result(text, arguments.value("--output").value_or(""));
  if (failed != 0 || !checked.ok()) return 1;
  return refused > 0 ? 3 : 0;
}

}  // namespace sluice
