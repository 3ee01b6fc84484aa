// Each reset and each end has one owner: the table of docs/operating/health.md, row by row.

#include "proxy/http/proxy/fault.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace sluice {
namespace {

constexpr Fault kNone = Fault::kNone, kClient = Fault::kClient, kEndpoint = Fault::kEndpoint, kSluice = Fault::kSluice;

struct ResetRow {
  ResetReason reason;
  ResetRule of_client, of_upstream;
};

constexpr ResetRow kResets[] = {
    {ResetReason::kCancelled, {kClient, HttpEnd::kClientReset}, {kNone, HttpEnd::kUpstreamReset}},
    {ResetReason::kRefused, {kClient, HttpEnd::kClientReset}, {kNone, HttpEnd::kUpstreamReset}},
    {ResetReason::kMalformed, {kClient, HttpEnd::kBadRequest}, {kEndpoint, HttpEnd::kUpstreamMalformed}},
    {ResetReason::kTooLarge, {kClient, HttpEnd::kBadRequest}, {kEndpoint, HttpEnd::kUpstreamMalformed}},
    {ResetReason::kTimeout, {kClient, HttpEnd::kClientReset}, {kEndpoint, HttpEnd::kUpstreamReset}},
    {ResetReason::kOverload, {kClient, HttpEnd::kClientReset}, {kEndpoint, HttpEnd::kUpstreamReset}},
    {ResetReason::kInternal, {kClient, HttpEnd::kClientReset}, {kEndpoint, HttpEnd::kUpstreamReset}},
    {ResetReason::kConnectionLost, {kClient, HttpEnd::kClientReset}, {kEndpoint, HttpEnd::kUpstreamReset}},
    {ResetReason::kRejected, {kClient, HttpEnd::kClientReset}, {kClient, HttpEnd::kUpstreamRefused}},
    {ResetReason::kUnsendable, {kEndpoint, HttpEnd::kUpstreamMalformed}, {kClient, HttpEnd::kBadRequest}},
};
static_assert(std::size(kResets) == kResetReasonCount,
              "a new reason needs an owner: here, and in docs/operating/health.md");

class FaultOfReset : public testing::TestWithParam<size_t> {};

TEST_P(FaultOfReset, HasOneOwner) {
  const ResetRow& row = kResets[GetParam()];
  ASSERT_EQ(static_cast<size_t>(row.reason), GetParam()) << "a row is missing";
  const ResetRule client = reset_rule(Side::kClient, row.reason), upstream = reset_rule(Side::kUpstream, row.reason);
  EXPECT_STREQ(fault_name(client.fault), fault_name(row.of_client.fault));
  EXPECT_STREQ(http_end_name(client.end), http_end_name(row.of_client.end));
  EXPECT_STREQ(fault_name(upstream.fault), fault_name(row.of_upstream.fault));
  EXPECT_STREQ(http_end_name(upstream.end), http_end_name(row.of_upstream.end));
  // Nothing that the client does is the endpoint's fault, except for what the endpoint wrote.
  EXPECT_TRUE(client.fault == kClient || row.reason == ResetReason::kUnsendable);
}

INSTANTIATE_TEST_SUITE_P(, FaultOfReset, testing::Range(size_t{0}, std::size(kResets)));

struct EndRow {
  HttpEnd end;
  Fault fault;
};

constexpr EndRow kEnds[] = {
    {HttpEnd::kOk, kNone},
    {HttpEnd::kClientReset, kClient},
    {HttpEnd::kBadRequest, kClient},
    {HttpEnd::kBadPath, kClient},
    {HttpEnd::kNoRoute, kClient},
    {HttpEnd::kMisdirected, kClient},
    {HttpEnd::kNotAllowed, kClient},
    {HttpEnd::kForbidden, kClient},
    {HttpEnd::kUnauthorized, kClient},
    {HttpEnd::kAuthBusy, kSluice},
    {HttpEnd::kAuthRefused, kClient},
    {HttpEnd::kAuthFailed, kEndpoint},
    {HttpEnd::kRateLimited, kClient},
    {HttpEnd::kRateLimitFailed, kEndpoint},
    {HttpEnd::kMaintenance, kSluice},
    {HttpEnd::kNoEndpoint, kEndpoint},
    {HttpEnd::kNotResolved, kSluice},
    {HttpEnd::kTooManyPending, kSluice},
    {HttpEnd::kConcurrencyLimit, kSluice},
    {HttpEnd::kUpstreamReset, kEndpoint},
    {HttpEnd::kUpstreamMalformed, kEndpoint},
    {HttpEnd::kUpstreamRefused, kNone},
    {HttpEnd::kResponseTimeout, kEndpoint},
    {HttpEnd::kBodyTimeout, kClient},
    {HttpEnd::kBodyTooLarge, kClient},
    {HttpEnd::kSendTimeout, kClient},
    {HttpEnd::kOverload, kSluice},
    {HttpEnd::kStuck, kSluice},
    {HttpEnd::kIdleTimeout, kNone},
    {HttpEnd::kRequestTimeout, kNone},
    {HttpEnd::kDeadline, kClient},
    {HttpEnd::kShutdown, kSluice},
    {HttpEnd::kMoved, kNone},
};
static_assert(std::size(kEnds) == kHttpEndCount, "a new end needs an owner: here, and in docs/operating/health.md");

class FaultOfEnd : public testing::TestWithParam<size_t> {};

TEST_P(FaultOfEnd, HasOneOwner) {
  const EndRow& row = kEnds[GetParam()];
  ASSERT_EQ(static_cast<size_t>(row.end), GetParam()) << "a row is missing";
  EXPECT_STREQ(fault_name(fault_of(row.end)), fault_name(row.fault)) << http_end_name(row.end);
}

INSTANTIATE_TEST_SUITE_P(, FaultOfEnd, testing::Range(size_t{0}, std::size(kEnds)),
                         [](const testing::TestParamInfo<size_t>& row) { return http_end_name(kEnds[row.param].end); });

}  // namespace
}  // namespace sluice
