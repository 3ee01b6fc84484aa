#include "proxy/http/message/fields.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "proxy/http/message/head.h"

namespace sluice {
namespace {

class FieldsTest : public testing::Test {
 protected:
  void TearDown() override {
    fields_.clear();
    EXPECT_EQ(pool_.out_bytes(), 0u);
  }
  void add(std::string_view name, std::string_view value) { ASSERT_TRUE(fields_.add(pool_, name, value)); }
  std::string shown() const {
    std::string text;
    for (const Fields::Field field : fields_) text += std::string(field.name) + "=" + std::string(field.value) + " ";
    return text;
  }

  ChunkPool pool_{{.budget_bytes = size_t{1} << 20}};
  ChunkPool::Use use_{&pool_};
  Fields fields_;
};

TEST_F(FieldsTest, EmptyHoldsNothing) {
  EXPECT_TRUE(fields_.empty());
  EXPECT_EQ(fields_.begin(), fields_.end());
  EXPECT_EQ(fields_.find("a"), Fields::npos);
  EXPECT_EQ(fields_.value("a"), "");
  EXPECT_EQ(fields_.remove("a"), 0u);
  EXPECT_EQ(fields_.text(Text()), "");
  EXPECT_EQ(pool_.out_bytes(), 0u);
}

TEST_F(FieldsTest, KeepsOrderAndRepetition) {
  add("b", "1");
  add("a", "2");
  add("b", "");
  EXPECT_EQ(shown(), "b=1 a=2 b= ");
  EXPECT_EQ(fields_.size(), 3u);
  EXPECT_EQ(fields_[1].name, "a");
  EXPECT_EQ(fields_.find("b"), 0u);
  EXPECT_EQ(fields_.find("b", 1), 2u);
  EXPECT_EQ(fields_.find("b", 3), Fields::npos);
  EXPECT_EQ(fields_.find("B"), Fields::npos) << "names are looked for as they are";
  EXPECT_EQ(fields_.value("b"), "1");
}

TEST_F(FieldsTest, NamesAreLoweredOnRequest) {
  ASSERT_TRUE(fields_.add_lowered(pool_, "X-[AZ]\xC4", "ABC"));
  EXPECT_EQ(shown(), "x-[az]\xC4=ABC ");
}

TEST_F(FieldsTest, NamesOfEachSizeAreLowered) {
  for (size_t size = 1; size <= 40; ++size) {
    for (size_t at = 0; at < size; ++at) {
      std::string name(size, '-'), lower(size, '-');
      name[at] = 'Q', lower[at] = 'q';
      Fields fields;
      ASSERT_TRUE(fields.add_lowered(pool_, name, "Value"));
      ASSERT_EQ(fields[0].name, lower);
      ASSERT_EQ(fields[0].value, "Value");
    }
  }
}

TEST_F(FieldsTest, NamesThatAreAlike) {
  Fields fields;
  for (const char* name : {"abc", "abd", "xbc", "abcd", "abc"}) ASSERT_TRUE(fields.add(pool_, name, name));
  EXPECT_EQ(fields.find("abc"), 0U);
  EXPECT_EQ(fields.find("abc", 1), 4U);
  EXPECT_EQ(fields.find("abc", 5), Fields::npos);
  EXPECT_EQ(fields.find("ab"), Fields::npos);
  EXPECT_EQ(fields.remove("abc"), 2U);
  ASSERT_EQ(fields.size(), 3U);
  EXPECT_EQ(fields[0].name, "abd");
  EXPECT_EQ(fields[2].name, "abcd");
  EXPECT_EQ(fields.remove("abc"), 0U);
}

TEST_F(FieldsTest, Sensitive) {
  ASSERT_TRUE(fields_.add(pool_, "a", "1", {.sensitive = true}) && fields_.add(pool_, "b", "2"));
  EXPECT_TRUE(fields_[0].traits.sensitive);
  EXPECT_FALSE(fields_[1].traits.sensitive);
}

TEST_F(FieldsTest, Removing) {
  for (const char* const name : {"a", "b", "a", "c", "a"}) add(name, "1");
  fields_.remove(1);
  EXPECT_EQ(shown(), "a=1 a=1 c=1 a=1 ");
  EXPECT_EQ(fields_.remove("a"), 3u);
  EXPECT_EQ(shown(), "c=1 ");
  add("d", "2");
  fields_.remove(size_t{0});
  EXPECT_EQ(shown(), "d=2 ");
  fields_.remove("d");
  EXPECT_TRUE(fields_.empty());
}

TEST_F(FieldsTest, OtherTexts) {
  Text path, both;
  ASSERT_TRUE(fields_.keep(pool_, "/x", path) && fields_.keep(pool_, "/", "?q", both));
  for (int i = 0; i < 100; ++i) add("name-" + std::to_string(i), std::string(20, 'v'));
  EXPECT_EQ(fields_.text(path), "/x") << "also when the chunk has grown";
  EXPECT_EQ(fields_.text(both), "/?q");
  EXPECT_EQ(fields_.size(), 100u);
}

TEST_F(FieldsTest, GrowsByTiers) {
  std::vector<std::string> expected;
  size_t bytes = 0;
  for (int i = 0; i < 500; ++i) {
    add("n" + std::to_string(i), std::string(static_cast<size_t>(i % 50), 'v'));
    bytes = pool_.out_bytes();
    for (int j = 0; j <= i; j += 50) ASSERT_EQ(fields_[static_cast<size_t>(j)].name, "n" + std::to_string(j));
  }
  EXPECT_EQ(bytes, 32768u) << "one chunk";
  EXPECT_EQ(fields_[499].value, std::string(49, 'v'));
}

TEST_F(FieldsTest, ReservedRoomIsEnough) {
  fields_.reserve(pool_, 10, 200);
  const size_t bytes = pool_.out_bytes();
  EXPECT_EQ(bytes, 512u);
  for (int i = 0; i < 10; ++i) add("0123456789", "0123456789");
  EXPECT_EQ(pool_.out_bytes(), bytes);
  fields_.reserve(pool_, 100, 10000);
  EXPECT_EQ(pool_.out_bytes(), bytes) << "there is a chunk already";
  Fields other;
  other.reserve(pool_, 1, Fields::kMaxBytes);
  EXPECT_EQ(pool_.out_bytes(), bytes) << "too much";
}

TEST_F(FieldsTest, OwnTextsMayBeAdded) {
  add("a", std::string(30, 'x'));
  for (int i = 0; i < 10; ++i) add("b", fields_.value("a"));
  Text kept;
  ASSERT_TRUE(fields_.keep(pool_, fields_.value("b"), kept));
  EXPECT_EQ(fields_.text(kept), std::string(30, 'x'));
  EXPECT_EQ(fields_[10].value, std::string(30, 'x'));
}

TEST_F(FieldsTest, BoundedByTheLargestChunk) {
  const size_t entry_bytes = 10;
  EXPECT_FALSE(fields_.add(pool_, "a", std::string(Fields::kMaxBytes - entry_bytes, 'x')));
  EXPECT_TRUE(fields_.empty());
  ASSERT_TRUE(fields_.add(pool_, "a", std::string(Fields::kMaxBytes - entry_bytes - 1, 'x')));
  EXPECT_FALSE(fields_.add(pool_, "b", ""));
  EXPECT_EQ(fields_.size(), 1u);
  Text kept;
  EXPECT_FALSE(fields_.keep(pool_, "x", kept));
  fields_.clear();
  ASSERT_TRUE(fields_.keep(pool_, std::string(65535, 'x'), kept));
  EXPECT_EQ(fields_.text(kept).size(), 65535u);
  EXPECT_FALSE(fields_.keep(pool_, "x", kept)) << "offsets have 16 bits";
  EXPECT_FALSE(fields_.add(pool_, "", ""));
}

TEST_F(FieldsTest, BeyondTheBudget) {
  ChunkPool small({.budget_bytes = 64});
  ChunkPool::Use use(&small);
  Fields fields;
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(fields.add(small, "name", "value"));
  EXPECT_EQ(fields.size(), 100u);
}

TEST_F(FieldsTest, Moves) {
  add("a", "1");
  Fields moved = std::move(fields_);
  EXPECT_EQ(moved.value("a"), "1");
  EXPECT_TRUE(fields_.empty());
  EXPECT_EQ(fields_.value("a"), "");
  add("b", "2");
  fields_ = std::move(moved);
  EXPECT_EQ(shown(), "a=1 ");
  EXPECT_EQ(pool_.out_bytes(), 64u);
}

TEST_F(FieldsTest, ComparesWithPairs) {
  std::mt19937 random(7);
  std::vector<std::pair<std::string, std::string>> model;
  for (int round = 0; round < 20000; ++round) {
    const std::string name(1, static_cast<char>('a' + random() % 5)), value(random() % 20, 'v');
    const auto what = random() % 100;
    if (what < 60) {
      if (fields_.add(pool_, name, value)) model.emplace_back(name, value);
    } else if (what < 90 && !model.empty()) {
      const size_t index = random() % model.size();
      fields_.remove(index);
      model.erase(model.begin() + static_cast<ptrdiff_t>(index));
    } else if (what < 93) {
      ASSERT_EQ(fields_.remove(name), std::erase_if(model, [&](const auto& pair) { return pair.first == name; }));
    } else if (what == 99 && random() % 10 == 0) {
      fields_.clear();
      model.clear();
    }
    ASSERT_EQ(fields_.size(), model.size());
    if (!model.empty()) {
      const size_t index = random() % model.size();
      ASSERT_EQ(fields_[index].name, model[index].first);
      ASSERT_EQ(fields_[index].value, model[index].second);
    }
  }
}

TEST_F(FieldsTest, MessageHead) {
  Head head;
  ASSERT_TRUE(head.set(pool_, Head::Part::kMethod, "GET") && head.set(pool_, Head::Part::kPath, "/", "?x") &&
              head.fields.add(pool_, "a", "b"));
  const Head moved = std::move(head);
  EXPECT_EQ(moved.method(), "GET");
  EXPECT_EQ(moved.path(), "/?x");
  EXPECT_EQ(moved.authority(), "");
  EXPECT_EQ(moved.fields.value("a"), "b");
}

}  // namespace
}  // namespace sluice
