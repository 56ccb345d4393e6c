## The number of the row of `operand` that index i names, counted from the first one.
<%def name="row_number(t, operand)">
        int32_t row = (int32_t)${t.at("indices", "i")};
        row += row < 0 ? ${t.extent(operand, 1)} : 0;
</%def>
