#include "proxy/http/proxy/grpc_health.h"

#include <gtest/gtest.h>

#include <string>

#include "sluice/chunk_pool.h"
#include "test/support/buffers.h"

namespace sluice {
namespace {

using namespace std::string_literals;  // NOLINT(google-build-using-namespace)

TEST(GrpcHealthTest, Request) {
  EXPECT_EQ(grpc_health_request(""), "\0\0\0\0\0"s);
  EXPECT_EQ(grpc_health_request("a.B"), "\0\0\0\0\x05\x0a\x03"s + "a.B");
  const std::string long_name(300, 'x');
  EXPECT_EQ(grpc_health_request(long_name), "\0\0\0\x01\x2f\x0a\xac\x02"s + long_name);
}

class GrpcHealthResponseTest : public testing::Test {
 protected:
  std::optional<ServingStatus> read(const std::string& body) {
    const ChunkPool::Use use(&pool_);
    Buffer buffer;
    // One byte in each window: none may be assumed to be next to another.
    for (const char c : body) buffer.append(test::buffer_of(pool_, std::string(1, c)));
    return read_grpc_health_response(buffer);
  }
  static std::string framed(const std::string& message) {
    return "\0\0\0\0"s + static_cast<char>(message.size()) + message;
  }

  ChunkPool pool_{{.budget_bytes = size_t{1} << 20}};
};

TEST_F(GrpcHealthResponseTest, Statuses) {
  EXPECT_EQ(read(framed("\x08\x01")), ServingStatus::kServing);
  EXPECT_EQ(read(framed("\x08\x02")), ServingStatus::kNotServing);
  EXPECT_EQ(read(framed("\x08\x03")), ServingStatus::kServiceUnknown);
  EXPECT_EQ(read(framed("\x08\0"s)), ServingStatus::kUnknown);
  EXPECT_EQ(read(framed("")), ServingStatus::kUnknown);                     // Zero is omitted.
  EXPECT_EQ(read(framed("\x08\x01\x08\x02")), ServingStatus::kNotServing);  // The last one counts.
  // A value whose lowest byte is 1 is not SERVING.
  EXPECT_NE(read(framed("\x08\x81\x02")), ServingStatus::kServing);
  EXPECT_NE(read(framed("\x08\x81\x80\x80\x80\x10")), ServingStatus::kServing);
}

TEST_F(GrpcHealthResponseTest, UnknownFields) {
  EXPECT_EQ(read(framed("\x10\x07\x08\x01")), ServingStatus::kServing);     // A number,
  EXPECT_EQ(read(framed("\x12\x03xyz\x08\x01")), ServingStatus::kServing);  // bytes,
  EXPECT_EQ(read(framed("\x15"
                        "1234\x08\x01")),
            ServingStatus::kServing);  // four,
  EXPECT_EQ(read(framed("\x11"
                        "12345678\x08\x01")),
            ServingStatus::kServing);                                     // and eight of them.
  EXPECT_EQ(read(framed("\x0a\x01x\x08\x01")), ServingStatus::kServing);  // The number of our field, with another type.
}

TEST_F(GrpcHealthResponseTest, MalformedResponses) {
  for (const std::string& body :
       {""s, "\0\0\0\0"s, "\x01\0\0\0\x02\x08\x01"s, "\0\0\0\0\x03\x08\x01"s, "\0\0\0\0\x02\x08\x01\0"s, framed("\x08"),
        framed("\x08\x81"), framed("\x12\x7fx"), framed("\x0b"),
        framed("\x15"
               "123"),
        framed("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        framed("\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), "<html>"s}) {
    EXPECT_FALSE(read(body)) << testing::PrintToString(body);
  }
}

}  // namespace
}  // namespace sluice
