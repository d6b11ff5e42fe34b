/* Checks for tests in C; the last line of a run is what tools/test.py counts. */
#ifndef TRAINRT_TESTS_CAPI_CHECK_H_
#define TRAINRT_TESTS_CAPI_CHECK_H_

#include <stdio.h>

#include "trainrt/trainrt_c.h"

static int checks = 0, failures = 0, cases = 0;

static void check_that(int good, const char* text, int line) {
  ++checks;
  if (good) return;
  ++failures;
  printf("line %d: %s\n", line, text);
}

static void check_status(trainrt_status wanted, trainrt_status found, const char* call, int line) {
  ++checks;
  if (found == wanted) return;
  ++failures;
  printf("line %d: %s\n  expected %s, found %s%s%s\n", line, call, trainrt_status_name(wanted),
         trainrt_status_name(found), found == TRAINRT_OK ? "" : ": ",
         found == TRAINRT_OK ? "" : trainrt_last_error());
}

#define CHECK(condition) check_that((condition) != 0, #condition, __LINE__)
#define OK(call) check_status(TRAINRT_OK, (call), #call, __LINE__)
#define FAILS(status, call) check_status((status), (call), #call, __LINE__)
#define RUN(test) (++cases, printf("%s\n", #test), (test)())

static int summary(void) {
  if (failures > 0) {
    printf("test cases: %d | %d failed\n", cases, failures);
    return 1;
  }
  printf("All tests passed (%d assertions in %d test cases)\n", checks, cases);
  return 0;
}

#endif /* TRAINRT_TESTS_CAPI_CHECK_H_ */
