#include "proxy/server/profile_page.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "net/worker.h"
#include "proxy/admin/query.h"
#include "proxy/common/suggestions.h"
#include "proxy/log/run_log.h"
#include "proxy/profile/cpu_sampler.h"
#include "proxy/profile/folded_stacks.h"
#include "proxy/profile/program_symbols.h"

namespace sluice {

namespace {

class ProfileWork final : public AdminWork {
 public:
  ProfileWork(const ProfileQuery& query, std::unique_ptr<CpuSampler> sampler)
      : query_(query), sampler_(std::move(sampler)), end_ms_(monotonic_ms() + query.seconds * uint64_t{1000}) {}

  std::optional<AdminResponse> poll(uint64_t) override {
    if (monotonic_ms() < end_ms_) {
      sampler_->collect(stacks_);
      return std::nullopt;
    }
    sampler_->finish(stacks_);
    sampler_.reset();
    ProgramSymbols symbols;
    AdminResponse response;
    response.body = stacks_.text(CpuSampler::kPeriodUs,
                                 [&](uintptr_t address) -> std::string_view { return symbols.name_of(address); });
    log_line(LogLevel::kInfo, absl::StrCat("admin: profile of ", query_.seconds, " s: ", stacks_.samples(),
                                           " samples, ", stacks_.lost(), " lost"));
    if (!symbols.has_own()) {
      log_line(LogLevel::kWarning,
               "admin: the program has no symbol table, so the profile has addresses in the place of names; `addr2line "
               "-Cfe` on the program before it was stripped finds them");
    }
    return response;
  }

 private:
  const ProfileQuery query_;
  std::unique_ptr<CpuSampler> sampler_;
  const uint64_t end_ms_;
  FoldedStacks stacks_;
};

absl::Status expected_in_query(std::string_view name, std::string_view what, std::string_view got) {
  return absl::InvalidArgumentError(absl::StrCat(name, ": expected ", what, ", got ", config::in_quotes(got)));
}

}  // namespace

absl::StatusOr<ProfileQuery> parse_profile_query(std::string_view query) {
  const auto parameters = parse_query(query);
  if (!parameters.ok()) return parameters.status();
  ProfileQuery parsed;
  for (const auto& [name, value] : *parameters) {
    if (name == "seconds") {
      if (!absl::SimpleAtoi(value, &parsed.seconds) || parsed.seconds < 1 ||
          parsed.seconds > ProfileQuery::kMaxSeconds) {
        return expected_in_query(name, absl::StrCat("a number from 1 to ", ProfileQuery::kMaxSeconds), value);
      }
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("there is no parameter ", config::in_quotes(name), "; the parameter is seconds"));
    }
  }
  return parsed;
}

AdminResponse profile_page(const AdminRequest& request) {
  const absl::StatusOr<ProfileQuery> query = parse_profile_query(request.query);
  if (!query.ok()) return {.status = 400, .body = absl::StrCat(query.status().message(), "\n")};
  absl::StatusOr<std::unique_ptr<CpuSampler>> sampler = CpuSampler::start();
  if (!sampler.ok()) {
    const bool exists = absl::IsAlreadyExists(sampler.status());
    const uint16_t status = exists ? 409 : 503;
    return {.status = status, .body = absl::StrCat(sampler.status().message(), exists ? "; try again later\n" : "\n")};
  }
  AdminResponse response;
  response.work = std::make_unique<ProfileWork>(*query, *std::move(sampler));
  return response;
}

}  // namespace sluice
