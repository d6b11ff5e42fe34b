// The imported graph as text. Private to the frontend.
#ifndef TRAINRT_FRONTEND_LISTING_H_
#define TRAINRT_FRONTEND_LISTING_H_

#include <string>

#include "frontend/imported.h"

namespace trainrt {

std::string list_model(const ImportedModel& model);

}  // namespace trainrt

#endif  // TRAINRT_FRONTEND_LISTING_H_
