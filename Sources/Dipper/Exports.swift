@_exported import DipperData
