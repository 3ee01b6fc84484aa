#include "proxy/tls/certificate_choice.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {
namespace {

using Indices = std::vector<size_t>;

CertificateChoice choice_of(std::vector<std::vector<std::string>> names) {
  std::vector<Certificate> certificates(names.size());
  for (size_t i = 0; i < names.size(); ++i) certificates[i].names = std::move(names[i]);
  return CertificateChoice(certificates);
}

Indices chosen(const CertificateChoice& choice, std::string_view name) {
  Indices indices;
  choice.visit(name, [&](size_t i) { indices.push_back(i); });
  return indices;
}

TEST(CertificateChoice, ExactNamesWinOverWildcards) {
  const CertificateChoice choice =
      choice_of({{"*.example.com"}, {"a.example.com", "example.com"}, {"*.a.example.com"}});
  EXPECT_EQ(chosen(choice, "a.example.com"), (Indices{1, 0})) << "The client may not know the first one's key";
  EXPECT_EQ(chosen(choice, "b.example.com"), Indices{0});
  EXPECT_EQ(chosen(choice, "example.com"), Indices{1});
  EXPECT_EQ(chosen(choice, "b.a.example.com"), Indices{2}) << "A star is one label";
}

TEST(CertificateChoice, CaseAndTrailingDotAreIgnored) {
  const CertificateChoice choice = choice_of({{"other.net"}, {"a.example.com"}, {"*.example.org"}});
  for (const char* name : {"a.example.com", "A.EXAMPLE.com", "a.example.com.", "A.Example.COM."}) {
    EXPECT_EQ(chosen(choice, name), Indices{1}) << name;
  }
  EXPECT_EQ(chosen(choice, "X.Example.Org."), Indices{2});
}

TEST(CertificateChoice, FirstIsTheDefault) {
  const CertificateChoice choice = choice_of({{"a.com", "b.com"}, {"c.com"}, {"a.com", "b.com"}, {"a.com"}});
  for (const char* name : {"", "d.com", "x.a.com", ".", "*.com"}) {
    EXPECT_EQ(chosen(choice, name), (Indices{0, 2})) << name << ": with those that differ in their key only";
  }
  EXPECT_EQ(chosen(choice, "a.com"), (Indices{0, 2, 3}));
  EXPECT_EQ(chosen(choice, "c.com"), Indices{1});
}

TEST(CertificateChoice, FirstMayHaveNoNames) {
  const CertificateChoice choice = choice_of({{}, {"a.com"}});
  EXPECT_EQ(chosen(choice, "b.com"), Indices{0});
  EXPECT_EQ(chosen(choice, "a.com"), Indices{1});
}

}  // namespace
}  // namespace sluice
