/* The versions of all formats. */
#include "base/wire.h"

const struct aqi_wire_row aqi_wires[AQI_WIRES] = {
    [AQI_WIRE_RANKS] = {"ranks", 1},
    [AQI_WIRE_MESSAGES] = {"messages", 2},
    [AQI_WIRE_SHM] = {"shm", 2},
    [AQI_WIRE_UDP] = {"udp", 4},
    [AQI_WIRE_IBV] = {"ibv", 4},
    [AQI_WIRE_OFI] = {"ofi", 3},
    [AQI_WIRE_LENDING] = {"lending", 1},
    [AQI_WIRE_CONTROL] = {"control", 8},
    [AQI_WIRE_AGENTS] = {"agents", 3},
    [AQI_WIRE_LINK] = {"link", 2},
    [AQI_WIRE_TOP] = {"top", 3},
    [AQI_WIRE_BOARD] = {"board", 1},
    [AQI_WIRE_CONNECTION] = {"connection", 6},
    [AQI_WIRE_CALL] = {"call", 3},
    [AQI_WIRE_GROUP] = {"group", 1},
    [AQI_WIRE_FI] = {"fi", 3},
    [AQI_WIRE_CCI] = {"cci", 4},
};
