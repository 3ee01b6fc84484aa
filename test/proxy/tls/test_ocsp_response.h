// OCSP responses like those of a responder, except for the signature, which is not checked here.
#pragma once

#include <openssl/bytestring.h>
#include <openssl/digest.h>
#include <openssl/posix_time.h>
#include <openssl/x509.h>
#include <time.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sluice/internal/check.h"

namespace sluice::test {

struct TestOcspResponse {
  uint8_t response_status = 0;
  int64_t this_update_s = 0;
  std::optional<int64_t> next_update_s;
  int64_t serial = 0;
  const X509* issued_like = nullptr;  // Whose issuer's name is hashed.
  bool issuer_differs = false;
  int others_before = 0;  // Responses for other serial numbers before it.

  std::string der() const {
    bssl::ScopedCBB out;
    CBB response, explicit_bytes, bytes, basic, outer;
    CBB_init(out.get(), 256);
    CBB_add_asn1(out.get(), &response, CBS_ASN1_SEQUENCE);
    add(response, CBS_ASN1_ENUMERATED, {reinterpret_cast<const char*>(&response_status), 1});
    if (response_status == 0) {
      CBB_add_asn1(&response, &explicit_bytes, kExplicit0);
      CBB_add_asn1(&explicit_bytes, &bytes, CBS_ASN1_SEQUENCE);
      add(bytes, CBS_ASN1_OBJECT, {"\x2b\x06\x01\x05\x05\x07\x30\x01\x01", 9});
      CBB_add_asn1(&bytes, &basic, CBS_ASN1_OCTETSTRING);
      CBB_add_asn1(&basic, &outer, CBS_ASN1_SEQUENCE);
      add_data(outer);
      add(outer, CBS_ASN1_SEQUENCE, {"\x06\x01\x2a", 3});
      add(outer, CBS_ASN1_BITSTRING, {"\0x", 2});
    }
    uint8_t* data = nullptr;
    size_t size = 0;
    SLUICE_CHECK(CBB_finish(out.get(), &data, &size) == 1);
    const std::string der(reinterpret_cast<const char*>(data), size);
    OPENSSL_free(data);
    return der;
  }

 private:
  static constexpr CBS_ASN1_TAG kExplicit0 = CBS_ASN1_CONTEXT_SPECIFIC | CBS_ASN1_CONSTRUCTED | 0;

  static void add(CBB& to, CBS_ASN1_TAG tag, std::string_view content) {
    SLUICE_CHECK(CBB_add_asn1_element(&to, tag, reinterpret_cast<const uint8_t*>(content.data()), content.size()) == 1);
  }
  static void add_time(CBB& to, int64_t seconds) {
    tm parts;
    std::array<char, 32> text;
    SLUICE_CHECK(OPENSSL_posix_to_tm(seconds, &parts) == 1);
    add(to, CBS_ASN1_GENERALIZEDTIME, {text.data(), strftime(text.data(), text.size(), "%Y%m%d%H%M%SZ", &parts)});
  }
  void add_data(CBB& to) const {
    CBB data, responder, responses;
    CBB_add_asn1(&to, &data, CBS_ASN1_SEQUENCE);
    CBB_add_asn1(&data, &responder, CBS_ASN1_CONTEXT_SPECIFIC | CBS_ASN1_CONSTRUCTED | 2);
    add(responder, CBS_ASN1_OCTETSTRING, "key");
    add_time(data, this_update_s);
    CBB_add_asn1(&data, &responses, CBS_ASN1_SEQUENCE);
    for (int i = 1; i <= others_before; ++i) add_single(responses, serial + i);
    add_single(responses, serial);
    SLUICE_CHECK(CBB_flush(&to) == 1);
  }
  void add_single(CBB& to, int64_t number) const {
    CBB single, id, algorithm, next;
    std::array<uint8_t, EVP_MAX_MD_SIZE> hash;
    unsigned hash_bytes = 0;
    X509_NAME_digest(X509_get_issuer_name(issued_like), EVP_sha1(), hash.data(), &hash_bytes);
    if (issuer_differs) hash[0] ^= 1;
    CBB_add_asn1(&to, &single, CBS_ASN1_SEQUENCE);
    CBB_add_asn1(&single, &id, CBS_ASN1_SEQUENCE);
    CBB_add_asn1(&id, &algorithm, CBS_ASN1_SEQUENCE);
    add(algorithm, CBS_ASN1_OBJECT, {"\x2b\x0e\x03\x02\x1a", 5});  // SHA-1
    add(id, CBS_ASN1_OCTETSTRING, {reinterpret_cast<const char*>(hash.data()), hash_bytes});
    add(id, CBS_ASN1_OCTETSTRING, std::string(20, 'k'));
    SLUICE_CHECK(CBB_add_asn1_int64(&id, number) == 1);
    add(single, CBS_ASN1_CONTEXT_SPECIFIC | 0, "");  // good
    add_time(single, this_update_s);
    if (next_update_s) {
      CBB_add_asn1(&single, &next, kExplicit0);
      add_time(next, *next_update_s);
    }
    SLUICE_CHECK(CBB_flush(&to) == 1);
  }
};

}  // namespace sluice::test
