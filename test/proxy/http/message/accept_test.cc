#include "proxy/http/message/accept.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "sluice/chunk_pool.h"

namespace sluice {
namespace {

ErrorForm form_for(const std::vector<std::string_view>& accept) {
  ChunkPool pool({.budget_bytes = size_t{1} << 20});
  const ChunkPool::Use use(&pool);
  Fields fields;
  for (const std::string_view value : accept) EXPECT_TRUE(fields.add(pool, "accept", value));
  return preferred_form(fields);
}

TEST(PreferredForm, WhatClientsSend) {
  EXPECT_EQ(form_for({}), ErrorForm::kPlain);
  EXPECT_EQ(form_for({"*/*"}), ErrorForm::kPlain) << "curl";
  EXPECT_EQ(form_for({"application/json"}), ErrorForm::kJson);
  EXPECT_EQ(form_for({"application/json, text/plain, */*"}), ErrorForm::kJson) << "axios";
  EXPECT_EQ(form_for({"application/json, */*;q=0.5"}), ErrorForm::kJson) << "HTTPie";
  EXPECT_EQ(form_for({"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"}),
            ErrorForm::kPlain)
      << "browsers";
  EXPECT_EQ(form_for({"application/problem+json, application/json;q=0.9"}), ErrorForm::kProblem);
}

TEST(PreferredForm, Weights) {
  EXPECT_EQ(form_for({"application/json;q=0.5, text/plain"}), ErrorForm::kPlain);
  EXPECT_EQ(form_for({"application/json;q=0.501, text/plain;q=0.5"}), ErrorForm::kJson);
  EXPECT_EQ(form_for({"text/plain;q=0.5", "application/json ; charset=utf-8 ; Q=0.7"}), ErrorForm::kJson);
  EXPECT_EQ(form_for({"application/json;q=0"}), ErrorForm::kPlain);
  EXPECT_EQ(form_for({"application/json;q=0, */*"}), ErrorForm::kPlain);
  EXPECT_EQ(form_for({"application/json;q=0.1"}), ErrorForm::kJson) << "it takes nothing else";
  for (const std::string_view malformed : {"2", "1.5", "0.1234", "-1", "x", "", ".5", "1.0001", "0,5", "1 0"}) {
    EXPECT_EQ(form_for({"application/json;q=" + std::string(malformed)}), ErrorForm::kPlain) << malformed;
  }
  EXPECT_EQ(form_for({"application/json;q=1.000, text/plain;q=0.999"}), ErrorForm::kJson);
}

TEST(PreferredForm, MostSpecificOrFirst) {
  EXPECT_EQ(form_for({"*/*, application/json"}), ErrorForm::kJson);
  EXPECT_EQ(form_for({"application/*, text/plain"}), ErrorForm::kPlain);
  EXPECT_EQ(form_for({"text/*, application/*"}), ErrorForm::kPlain);
  EXPECT_EQ(form_for({"application/*, text/*"}), ErrorForm::kJson);
  EXPECT_EQ(form_for({"text/plain, application/json"}), ErrorForm::kPlain);
  EXPECT_EQ(form_for({"APPLICATION/JSON"}), ErrorForm::kJson);
}

TEST(PreferredForm, MalformedValues) {
  for (const std::string_view value : {"", ",", ";", ";q=1", "=", "/", "json", "application", "application/json/x",
                                       "application/jsonp", "a;b;c=d;q", ",,;;==,,"}) {
    EXPECT_EQ(form_for({value}), ErrorForm::kPlain) << value;
  }
}

}  // namespace
}  // namespace sluice
