/* The digits model and its data, for tests in C. */
#ifndef TRAINRT_TESTS_CAPI_DIGITS_H_
#define TRAINRT_TESTS_CAPI_DIGITS_H_

#include <stdlib.h>
#include <string.h>

#include "tests/capi/check.h"

#define DIGITS "examples/digits/"

/* Contiguous rows of x and target; valid while the arrays live. */
static void digits_rows(trainrt_arrays* arrays, int64_t begin, int64_t count, int64_t shapes[2][4],
                        trainrt_array batch[2]) {
  static const char* const kNames[2] = {"x", "target"};
  int i;
  for (i = 0; i < 2; ++i) {
    size_t row;
    OK(trainrt_arrays_find(arrays, kNames[i], &batch[i]));
    row = batch[i].bytes / (size_t)batch[i].shape[0];
    memcpy(shapes[i], batch[i].shape, (size_t)batch[i].rank * sizeof(int64_t));
    shapes[i][0] = count;
    batch[i].shape = shapes[i];
    batch[i].data = (const char*)batch[i].data + (size_t)begin * row;
    batch[i].bytes = (size_t)count * row;
  }
}

/* A path in the test's own folder; the caller frees it. */
static char* scratch(const char* name) {
  const char* folder = getenv("TEST_TMPDIR");
  char* path;
  if (folder == NULL) folder = "/tmp";
  path = malloc(strlen(folder) + strlen(name) + 2);
  if (path == NULL) exit(1);
  sprintf(path, "%s/%s", folder, name);
  return path;
}

#endif /* TRAINRT_TESTS_CAPI_DIGITS_H_ */
