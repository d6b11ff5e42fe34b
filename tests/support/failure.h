// Errors that are expected.
#ifndef TRAINRT_TESTS_SUPPORT_FAILURE_H_
#define TRAINRT_TESTS_SUPPORT_FAILURE_H_

#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <string>

#include "trainrt/error.h"

namespace trainrt::testing {

/// Message of the Error that f throws, whose code must be `code`; empty when it throws none.
inline std::string failure(const std::function<void()>& f, ErrorCode code) {
  try {
    f();
  } catch (const Error& e) {
    CHECK(e.code() == code);
    return e.what();
  }
  return "";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace trainrt::testing

#endif  // TRAINRT_TESTS_SUPPORT_FAILURE_H_
