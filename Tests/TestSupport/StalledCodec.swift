package import DipperData
package import DipperTesting
package import Foundation

/// A codec that changes nothing. It holds the thread that writes to disk until the test opens the door.
package struct StalledCodec: RecordCodec {
    package let identifier = "stalled"
    package let door = Door()
    package let arrivals = Box(0)

    package init() {}

    package func encode(_ record: Data) throws(DipperError) -> Data {
        arrivals.update { $0 += 1 }
        door.pass()
        return record
    }

    package func decode(_ bytes: Data) throws(DipperError) -> Data { bytes }
}
