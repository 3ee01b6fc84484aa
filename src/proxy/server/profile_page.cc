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

// A profile of either kind, until its time is over or its client is gone.
class ProfileWork : public AdminWork {
 public:
  explicit ProfileWork(unsigned seconds) : seconds_(seconds), end_ms_(monotonic_ms() + seconds * uint64_t{1000}) {}

  std::optional<AdminResponse> poll(uint64_t) override {
    if (monotonic_ms() < end_ms_) {
      collect(stacks_);
      return std::nullopt;
    }
    const Result result = finish(stacks_);
    ProgramSymbols symbols;
    AdminResponse response;
    response.body =
        stacks_.text(result.scale, [&](uintptr_t address) -> std::string_view { return symbols.name_of(address); });
    log_line(LogLevel::kInfo, absl::StrCat("admin: ", result.title, " of ", seconds_, " s: ", stacks_.samples(),
                                           " samples, ", stacks_.lost(), " lost", result.total));
    if (!symbols.has_own()) {
      log_line(LogLevel::kWarning,
               "admin: the program has no symbol table, so the profile has addresses in the place of names; `addr2line "
               "-Cfe` on the program before it was stripped finds them");
    }
    return response;
  }

 protected:
  struct Result {
    double scale;            // Of FoldedStacks::text().
    std::string_view title;  // Like the next one, for the log.
    std::string total;
  };

 private:
  virtual void collect(FoldedStacks& stacks) = 0;
  virtual Result finish(FoldedStacks& stacks) = 0;

  const unsigned seconds_;
  const uint64_t end_ms_;
  FoldedStacks stacks_;
};

class TimeProfile final : public ProfileWork {
 public:
  TimeProfile(unsigned seconds, std::unique_ptr<CpuSampler> sampler)
      : ProfileWork(seconds), sampler_(std::move(sampler)) {}

 private:
  void collect(FoldedStacks& stacks) override { sampler_->collect(stacks); }
  Result finish(FoldedStacks& stacks) override {
    sampler_->finish(stacks);
    sampler_.reset();
    return {.scale = double{CpuSampler::kPeriodUs}, .title = "profile", .total = ""};
  }

  std::unique_ptr<CpuSampler> sampler_;
};

class AllocationProfile final : public ProfileWork {
 public:
  AllocationProfile(unsigned seconds, std::unique_ptr<AllocationSampler> sampler,
                    const std::vector<std::unique_ptr<WorkerThread>>& workers)
      : ProfileWork(seconds), sampler_(std::move(sampler)), workers_(workers) {
    notify_workers();
  }
  ~AllocationProfile() override { stop(); }

 private:
  void collect(FoldedStacks& stacks) override { sampler_->collect(stacks); }
  Result finish(FoldedStacks& stacks) override {
    sampler_->finish(stacks);
    Result result{.scale = AllocationSampler::kScale,
                  .title = "profile of allocations",
                  .total = absl::StrCat(", ", sampler_->total_bytes(), " bytes allocated")};
    stop();
    return result;
  }
  void stop() {
    if (!sampler_) return;
    sampler_.reset();
    notify_workers();
  }
  // Their pools report what they hand out while there is a sampler.
  void notify_workers() {
    for (const auto& worker : workers_) worker->follow_profile();
  }

  std::unique_ptr<AllocationSampler> sampler_;
  const std::vector<std::unique_ptr<WorkerThread>>& workers_;
};

AdminResponse no_profile(const absl::Status& status) {
  if (absl::IsAlreadyExists(status)) {
    return {.status = 409, .body = absl::StrCat(status.message(), "; try again later\n")};
  }
  return {.status = 503, .body = absl::StrCat(status.message(), "\n")};
}

absl::Status expected_in_query(std::string_view name, std::string_view what, std::string_view got) {
  return absl::InvalidArgumentError(absl::StrCat(name, ": expected ", what, ", got ", config::in_quotes(got)));
}

}  // namespace

absl::StatusOr<ProfileQuery> parse_profile_query(std::string_view query) {
  const auto parameters = parse_query(query);
  if (!parameters.ok()) return parameters.status();
  ProfileQuery parsed;
  bool has_unit = false;
  for (const auto& [name, value] : *parameters) {
    if (name == "seconds") {
      if (!absl::SimpleAtoi(value, &parsed.seconds) || parsed.seconds < 1 ||
          parsed.seconds > ProfileQuery::kMaxSeconds) {
        return expected_in_query(name, absl::StrCat("a number from 1 to ", ProfileQuery::kMaxSeconds), value);
      }
    } else if (name == "type") {
      if (value != "time" && value != "allocations") return expected_in_query(name, "time or allocations", value);
      parsed.type = value == "time" ? ProfileQuery::Type::kTime : ProfileQuery::Type::kAllocations;
    } else if (name == "unit") {
      if (value != "bytes" && value != "count") return expected_in_query(name, "bytes or count", value);
      parsed.unit = value == "bytes" ? AllocationSampler::Unit::kBytes : AllocationSampler::Unit::kCount;
      has_unit = true;
    } else {
      return absl::InvalidArgumentError(absl::StrCat("there is no parameter ", config::in_quotes(name),
                                                     "; the parameters are type, seconds and unit"));
    }
  }
  if (has_unit && parsed.type != ProfileQuery::Type::kAllocations) {
    return absl::InvalidArgumentError("unit is for type=allocations: processor time is in microseconds");
  }
  return parsed;
}

AdminResponse profile_page(const AdminRequest& request, const std::vector<std::unique_ptr<WorkerThread>>& workers) {
  const absl::StatusOr<ProfileQuery> query = parse_profile_query(request.query);
  if (!query.ok()) return {.status = 400, .body = absl::StrCat(query.status().message(), "\n")};
  AdminResponse response;
  if (query->type == ProfileQuery::Type::kTime) {
    absl::StatusOr<std::unique_ptr<CpuSampler>> sampler = CpuSampler::start();
    if (!sampler.ok()) return no_profile(sampler.status());
    response.work = std::make_unique<TimeProfile>(query->seconds, *std::move(sampler));
  } else {
    absl::StatusOr<std::unique_ptr<AllocationSampler>> sampler = AllocationSampler::start(query->unit);
    if (!sampler.ok()) return no_profile(sampler.status());
    response.work = std::make_unique<AllocationProfile>(query->seconds, *std::move(sampler), workers);
  }
  return response;
}

}  // namespace sluice
