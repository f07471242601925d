-- The load of the image servers: wrk … -- PATH FIRST COUNT asks for PATH with the numbers from FIRST on in place of the word
-- NUMBER, and begins anew after COUNT of them. Prints requests, seconds, milliseconds to the middle answer, and failures.

local head, tail, first, count
local number = 0

function init(args)
    head, tail = args[1]:match("^(.*)NUMBER(.*)$")
    first, count = tonumber(args[2]), tonumber(args[3])
    tail = tail .. " HTTP/1.1\r\nHost: " .. wrk.host .. "\r\n\r\n"
end

function request()
    local text = "GET " .. head .. first + number % count .. tail
    number = number + 1
    return text
end

function done(summary, latency)
    local errors = summary.errors
    local failures = errors.connect + errors.read + errors.write + errors.status + errors.timeout
    io.write(string.format("figures %d %f %f %d\n", summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, failures))
end
